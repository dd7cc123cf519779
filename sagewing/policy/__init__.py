"""The learned attenuation policy: features, network, files."""

from sagewing.policy.architecture import Architecture
from sagewing.policy.policy import Policy

__all__ = ["Architecture", "Policy"]
