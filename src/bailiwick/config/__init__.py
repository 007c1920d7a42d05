"""The configuration file ``bailiwick.toml``: from text to checked values, or to one clear error.

`load` is pure: whoever calls it has read the file. Everything in it is enforced or refused: an
unknown key, a wrong type or an impossible combination is a `ParseError` that begins with file, line
and column, and `refuse_unbuilt` names what is understood but not built yet.
"""

from bailiwick.config.loading import load
from bailiwick.config.unbuilt import refuse_unbuilt
from bailiwick.config.values import (
    AskConfig,
    AuditConfig,
    Config,
    ExtensionConfig,
    GrantConfig,
    RateConfig,
    RootConfig,
    ServerConfig,
    StateConfig,
    TlsConfig,
    TokenConfig,
    Unbuilt,
)

__all__ = [
    "AskConfig",
    "AuditConfig",
    "Config",
    "ExtensionConfig",
    "GrantConfig",
    "RateConfig",
    "RootConfig",
    "ServerConfig",
    "StateConfig",
    "TlsConfig",
    "TokenConfig",
    "Unbuilt",
    "load",
    "refuse_unbuilt",
]
