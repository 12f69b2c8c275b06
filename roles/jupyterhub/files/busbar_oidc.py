"""Login with the site's identity provider (OpenID Connect) as an existing user of the cluster.

The authorization code is valid only with its state, the PKCE verifier in the browser's cookie and the client secret.
The hub reads the user from the provider over TLS. It does not read ID tokens, so it does not need a nonce.
"""

from __future__ import annotations

from typing import Any

from busbar_hub import PortalAuthenticator, RefusedError, run_as_user
from oauthenticator.generic import GenericOAuthenticator
from oauthenticator.oauth2 import OAuthCallbackHandler
from tornado.httpclient import AsyncHTTPClient
from traitlets import List, Unicode, default


class OidcAuthenticator(PortalAuthenticator, GenericOAuthenticator):
    """Authenticates users against an identity provider and checks that they have a cluster account."""

    ca_file = Unicode("", help="CA certificates that verify the provider").tag(config=True)
    groups_claim = Unicode("groups", help="Claim that lists the groups of a user").tag(config=True)
    wanted_groups = List(Unicode(), help="Groups that may log in; empty for all").tag(config=True)

    @default("http_client")
    def _default_http_client(self) -> AsyncHTTPClient:
        # The hub's HTTP client trusts only the certificate authority that hub and notebooks share.
        trusted = {"ca_certs": self.ca_file} if self.ca_file else {}
        return AsyncHTTPClient(force_instance=True, defaults={"validate_cert": True, **trusted})

    async def authenticate(self, handler: object, data: dict[str, str]) -> str | None:
        """Return the name of a user that both the provider and the cluster accept, or None."""
        if not isinstance(handler, OAuthCallbackHandler):
            # A submitted password form would bypass the check of the state.
            return None
        model = await GenericOAuthenticator.authenticate(self, handler, data)
        if not model:
            return None
        name = model["name"]
        claims = model["auth_state"][self.user_auth_state_key]
        if not self.is_wanted(claims):
            self.log.warning("login of %r refused: not in an allowed group", str(name)[:64])
            return None
        try:
            await run_as_user("login", {"user": name, "account": True}, "root")
        except (PermissionError, RefusedError):
            self.log.warning("login of %r refused: no cluster account that may log in", str(name)[:64])
            return None
        # Only the name is needed, so the provider's tokens are discarded.
        return name

    def is_wanted(self, claims: dict[str, Any]) -> bool:
        """Return whether a user is in one of the groups that may log in."""
        groups = claims.get(self.groups_claim)
        return not self.wanted_groups or (
            isinstance(groups, list) and bool({*map(str, groups)} & {*self.wanted_groups})
        )
