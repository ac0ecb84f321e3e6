"""Answers with a recalibration map: the stored Arrow file, or JSON."""

from typing import Final

from fastapi import Request
from starlette.responses import Response

from monitor.http.recalibration_schemas import ArtifactBody, job_path
from monitor.http.responses import JSON, NOT_MODIFIED, Responses, encode_json, has_tag, preferred_media
from monitor.http.schemas import reference
from monitor.maps.artifact import to_json
from monitor.store.recalibrations import StoredMap

_ARROW: Final = "application/vnd.apache.arrow.file"

ARTIFACT: Final[Responses] = {
    200: {
        "description": "The map. `ETag` is the SHA-256 of the file; `Content-Location` names its refit",
        "content": {
            _ARROW: {"schema": {"type": "string", "format": "binary"}, "example": "ARROW1..."},
            JSON: {"schema": reference(ArtifactBody)},
        },
    },
    **NOT_MODIFIED,
}
"""The ``responses`` of a route that answers with a map."""


def artifact_response(request: Request, stored: StoredMap, *, serving: bool = False) -> Response:
    """A map in the form that the request prefers; 304 if the client has it.

    Parameters
    ----------
    serving
        Whether it is requested as the map that serves, which may be another one soon.
    """
    unchanged = not_modified(request, stored.id, stored.sha256, serving=serving)
    if unchanged is not None:
        return unchanged
    media_type = preferred_media(request, (_ARROW, JSON))
    headers = _headers(stored.id, stored.sha256, media_type, serving=serving)
    if media_type == JSON:
        return Response(encode_json(to_json(stored.artifact)), headers=headers, media_type=media_type)
    file_name = "".join(character if character.isalnum() or character in "-_." else "_" for character in stored.id)
    headers["content-disposition"] = f'attachment; filename="{file_name}.arrow"'
    return Response(stored.artifact, headers=headers, media_type=media_type)


def not_modified(request: Request, map_id: str, sha256: str, *, serving: bool = True) -> Response | None:
    """304 if the client has the map of this hash in the form that the request prefers, else None."""
    headers = _headers(map_id, sha256, preferred_media(request, (_ARROW, JSON)), serving=serving)
    return Response(status_code=304, headers=headers) if has_tag(request, headers["etag"]) else None


def _headers(map_id: str, sha256: str, media_type: str, *, serving: bool) -> dict[str, str]:
    return {
        # The tag of the file is its SHA-256, so that clients can check it; each form has a tag of its own.
        "etag": f'"{sha256}"' if media_type == _ARROW else f'"{sha256}-json"',
        "vary": "Accept",
        "cache-control": "private, no-cache" if serving else "private, max-age=31536000, immutable",
        "content-location": f"{job_path(map_id)}/artifact",
    }
