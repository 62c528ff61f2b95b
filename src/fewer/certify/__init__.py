"""How wrong an evicted cache may have made attention, where rows left by chance with known probabilities."""

from fewer.certify.audit import audit
from fewer.certify.bernstein import bernstein_radius
from fewer.certify.certificate import Certificate, StepCertificate
from fewer.certify.certifier import Certifier
from fewer.certify.eprocess import EProcess
from fewer.certify.known import KnownProbabilities
from fewer.certify.variance import (
    Form,
    fixed_size_variance,
    leave_one_out_range,
    leave_one_out_variance,
    poisson_variance,
    radius,
    range_term,
)

__all__ = [
    "Certificate",
    "Certifier",
    "EProcess",
    "Form",
    "KnownProbabilities",
    "StepCertificate",
    "audit",
    "bernstein_radius",
    "fixed_size_variance",
    "leave_one_out_range",
    "leave_one_out_variance",
    "poisson_variance",
    "radius",
    "range_term",
]
