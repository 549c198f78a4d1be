"""Whose data these are: licences and citations. Data, not code."""

from __future__ import annotations

from sordino.data.recipe import Publication

_UCI = "UCI Machine Learning Repository"

ADULT = Publication(
    "CC BY 4.0", f"B. Becker and R. Kohavi (1996). Adult. {_UCI}. doi:10.24432/C5XW20"
)
COVERTYPE = Publication("CC BY 4.0", f"J. Blackard (1998). Covertype. {_UCI}. doi:10.24432/C50K5N")
MNIST = Publication(
    "CC BY-SA 3.0", "Y. LeCun, C. Cortes and C. J. C. Burges. The MNIST database of digits."
)
CIFAR = Publication(
    "none stated", "A. Krizhevsky (2009). Learning Multiple Layers of Features from Tiny Images."
)
BANK = Publication(
    "CC BY 4.0",
    f"S. Moro, P. Rita and P. Cortez (2012). Bank Marketing. {_UCI}. doi:10.24432/C5K306",
)
KDD = Publication("CC BY 4.0", f"KDD Cup 1999 Data. {_UCI}. doi:10.24432/C51C7N")
IPUMS = Publication("IPUMS terms", "As the terms of your extract ask: see www.ipums.org.")
DIGITS = Publication(
    "CC BY 4.0",
    f"E. Alpaydin and C. Kaynak (1998). Optical Recognition of Handwritten Digits. {_UCI}. "
    "doi:10.24432/C50P49",
)
BREAST_CANCER = Publication(
    "CC BY 4.0",
    f"W. Wolberg, O. Mangasarian, N. Street and W. Street (1993). Breast Cancer Wisconsin "
    f"(Diagnostic). {_UCI}. doi:10.24432/C5DW2B",
)
