"""The rule of every JAX primitive that has C code: importing this package registers them."""

from sagewing.codegen.rules import arithmetic as arithmetic
from sagewing.codegen.rules import control as control
from sagewing.codegen.rules import linear_algebra as linear_algebra
from sagewing.codegen.rules import rearranging as rearranging
from sagewing.codegen.rules import reductions as reductions
