"""Element operations beside the products of matrices: their number for each element.

They are counted with small constants, for a vector unit with a fused multiply-add and a table for
exponentials. Inputs that are polished take a logarithm where they are made (behind
the norm, the softmax-weighted sum or the SiLU) and an exponential beside the product that they
enter, once each. Of a network whose tokens pass all layers together, the product takes both.

Simplifications: GELU of a gated MLP counts as SiLU, a cap on scores or logits as nothing; the
head's inputs are not polished.
"""

from carsim.base.units import Whole
from carsim.workload.body import Product
from carsim.workload.model import Model, Polished

NORM_OPS = 4
"""Per element of RMSNorm: square-accumulate, scale, multiply by the weight, write."""
SOFTMAX_OPS = 4
"""Per score: running maximum, exponential, sum, divide."""
GELU_OPS = 4
"""Per element of GELU by its tanh form, table-driven."""
RESIDUAL_OPS = 1
"""Per element of a residual sum."""
BIAS_OPS = 1
"""Per element to which a bias is added."""
LOGARITHM_OPS = 4
"""Per logarithm or exponential of polishing: the middle of the 3 to 5 cycles that notes on
QuartDepth (arXiv 2503.16709) give its vector unit; scaling by w and rounding are among them."""


def logarithms(model: Model, product: Product, elements: Whole) -> Whole:
    """Element operations of one logarithm, or one exponential, of each input of a product."""
    return elements * (LOGARITHM_OPS if product in model.polished else 0)


def polishing_ops(model: Model, product: Polished, elements: Whole) -> Whole:
    """Element operations of polished inputs: the logarithm of each, and its exponential."""
    return elements * (2 * LOGARITHM_OPS if product in model.polished else 0)


def residual_ops(model: Model) -> int:
    """Element operations per element that joins the residual: the sum, and a norm before it."""
    return RESIDUAL_OPS + NORM_OPS * model.body.post_norms
