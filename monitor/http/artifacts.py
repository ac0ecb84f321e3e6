"""Maps over HTTP: as they are stored, or as JSON."""

from typing import Any, Final

from fastapi import Request
from starlette.responses import Response

from monitor.http.answers import MEDIA_TYPE, encode_json, has_tag
from monitor.http.negotiation import preferred
from monitor.http.recalibration_documents import job_path
from monitor.http.recalibration_schemas import ArtifactBody
from monitor.http.schemas import reference
from monitor.maps.artifact import to_json
from monitor.store.recalibrations import StoredMap

ARROW: Final = "application/vnd.apache.arrow.file"

_FORMS: Final = (ARROW, MEDIA_TYPE)

_FOR_EVER: Final = "private, max-age=31536000, immutable"


def artifact_answer(request: Request, stored: StoredMap, *, serving: bool = False) -> Response:
    """A map in the form that the request prefers; 304 if it has it.

    Parameters
    ----------
    serving
        Whether it is asked for as the one that serves, which may be another one soon.
    """
    unchanged = not_modified(request, stored.id, stored.sha256, serving=serving)
    if unchanged is not None:
        return unchanged
    form = preferred(request, _FORMS)
    headers = _headers(stored.id, stored.sha256, form, serving=serving)
    if form == MEDIA_TYPE:
        return Response(encode_json(to_json(stored.artifact)), headers=headers, media_type=form)
    headers["content-disposition"] = f'attachment; filename="{_file_name(stored.id)}.arrow"'
    return Response(stored.artifact, headers=headers, media_type=form)


def not_modified(request: Request, map_id: str, sha256: str, *, serving: bool = True) -> Response | None:
    """304 if the request has the map of this hash in the form that it prefers, else None."""
    headers = _headers(map_id, sha256, preferred(request, _FORMS), serving=serving)
    return Response(status_code=304, headers=headers) if has_tag(request, headers["etag"]) else None


def artifact_responses() -> dict[int | str, dict[str, Any]]:
    """The ``responses`` entries of a map."""
    return {
        200: {
            "description": "The map. `ETag` is the SHA-256 of the file; `Content-Location` names its refit",
            "content": {
                ARROW: {"schema": {"type": "string", "format": "binary"}, "example": "ARROW1..."},
                MEDIA_TYPE: {"schema": reference(ArtifactBody)},
            },
        },
        304: {"description": "Nothing has changed since the answer with that ETag"},
    }


def _headers(map_id: str, sha256: str, form: str, *, serving: bool) -> dict[str, str]:
    return {
        # Of the file the tag is its SHA-256, so that who has it can check it; each form has a tag of its own.
        "etag": f'"{sha256}"' if form == ARROW else f'"{sha256}-json"',
        "vary": "Accept",
        "cache-control": "private, no-cache" if serving else _FOR_EVER,
        "content-location": f"{job_path(map_id)}/artifact",
    }


def _file_name(map_id: str) -> str:
    return "".join(each if each.isalnum() or each in "-_." else "_" for each in map_id)
