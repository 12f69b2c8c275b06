"""Login by the site's own identity provider (OpenID Connect), as a user that the cluster has already.

The code that a browser brings is worth something with its state, the verifier of PKCE in its cookie and the secret of
the hub alone; who it is, the provider says to the hub over TLS. No ID token is read, so there is no nonce in it.
"""

from __future__ import annotations

from typing import Any

from busbar_hub import PortalAuthenticator, RefusedError, asked
from oauthenticator.generic import GenericOAuthenticator
from oauthenticator.oauth2 import OAuthCallbackHandler
from tornado.httpclient import AsyncHTTPClient
from traitlets import List, Unicode, default


class OidcAuthenticator(PortalAuthenticator, GenericOAuthenticator):
    """The login of an identity provider, and the account of the cluster."""

    ca_file = Unicode("", help="Certificates that the provider's is checked against").tag(config=True)
    groups_claim = Unicode("groups", help="Claim that lists the groups of a user").tag(config=True)
    wanted_groups = List(Unicode(), help="Groups of which a user must have one; none for all").tag(config=True)

    @default("http_client")
    def _default_http_client(self) -> AsyncHTTPClient:
        # The hub's own client trusts the authority of hub and notebooks alone.
        trusted = {"ca_certs": self.ca_file} if self.ca_file else {}
        return AsyncHTTPClient(force_instance=True, defaults={"validate_cert": True, **trusted})

    async def authenticate(self, handler: object, data: dict[str, str]) -> str | None:
        """The name of a user whom the provider and the cluster know, or nothing."""
        if not isinstance(handler, OAuthCallbackHandler):
            # The form of passwords would pass by the check of the state.
            return None
        model = await GenericOAuthenticator.authenticate(self, handler, data)
        if not model:
            return None
        name = model["name"]
        claims = model["auth_state"][self.user_auth_state_key]
        if not self.is_wanted(claims):
            self.log.warning("login of %r refused: none of the groups that may", str(name)[:64])
            return None
        try:
            await asked("login", {"user": name, "account": True}, "root")
        except (PermissionError, RefusedError):
            self.log.warning("login of %r refused: no account of the cluster that may log in", str(name)[:64])
            return None
        # The tokens of the provider are not kept: a name is all that is needed.
        return name

    def is_wanted(self, claims: dict[str, Any]) -> bool:
        """Whether a user is in one of the groups that may log in."""
        groups = claims.get(self.groups_claim)
        return not self.wanted_groups or (
            isinstance(groups, list) and bool({*map(str, groups)} & {*self.wanted_groups})
        )
