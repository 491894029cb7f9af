"""Numbers as people read them."""


def number(value: float, digits: int = 4) -> str:
    """A number to so many significant digits, thousands separated, without an exponent.

    Whole numbers are given in full.

    >>> [number(x) for x in (0, 387.3087, 7523.69, 1234567.8, 0.00123456, 250.0, 99.7, 0.99999)]
    ['0', '387.3', '7,524', '1,234,568', '0.001235', '250', '99.70', '1.000']
    """
    if value == round(value):
        return f"{value:,.0f}"
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    return f"{value:,.{max(0, digits - 1 - exponent)}f}"


def percent(share: float) -> str:
    """A share as a percentage with one decimal.

    >>> percent(0.4521), percent(1.0)
    ('45.2 %', '100.0 %')
    """
    return f"{100 * share:.1f} %"
