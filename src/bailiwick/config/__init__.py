"""The configuration file ``bailiwick.toml``: from text to checked values, or to one clear error.

`load` is pure: whoever calls it has read the file. Everything in it is enforced or refused: an
unknown key, a wrong type or an impossible combination is a `ParseError`, and what is known and not
built is `Unsupported`. Both begin with file, line and column.
"""

from bailiwick.config.loader import load
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
    "load",
]
