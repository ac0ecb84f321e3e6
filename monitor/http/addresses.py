"""Who is one and the same on the network, as far as an address tells."""

import ipaddress
from typing import Final

_IPV6_NETWORK: Final = 64
"""Bits of an IPv6 address that are one customer's."""


def origin_of(host: str) -> str:
    """An IPv4 address, or the /64 network of an IPv6 one, which is one customer's.

    Parameters
    ----------
    host
        The address at the other end of a connection; what is none stands for itself.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host or "unknown"
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address), _IPV6_NETWORK), strict=False))
