"""The raw files by name: addresses and content checksums. Data, not code."""

from __future__ import annotations

from sordino.data import unpack
from sordino.data.rawfile import RawFile, unix_lines

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"

ADULT_HOME = "https://archive.ics.uci.edu/dataset/2/adult"
ADULT_DATA = RawFile(
    "adult.data.gz",
    "md5:5d7c39d7b8804f071cdd1f2a7c460872",
    (UCI + "adult/adult.data",),
    ADULT_HOME,
)
ADULT_TEST = RawFile(
    "adult.test.gz",
    "md5:35238206dfdf7f1fe215bbb874adecdc",
    (UCI + "adult/adult.test",),
    ADULT_HOME,
)

COVTYPE = RawFile(
    "covtype.data.gz",
    "md5:71df19898bd3e11db15ae0faf4159f2c",
    (UCI + "covtype/covtype.data.gz",),
    "https://archive.ics.uci.edu/dataset/31/covertype",
    unpack.gunzipped,
)

BANK = RawFile(
    "bank-full.csv.gz",
    "sha256:d1513ec63b385506f7cfce9f2c5caa9fe99e7ba4e8c3fa264b3aaf0f849ed32d",
    (UCI + "00222/bank.zip", "https://archive.ics.uci.edu/static/public/222/bank+marketing.zip"),
    "https://archive.ics.uci.edu/dataset/222/bank+marketing",
    unpack.bank_csv,
    # Copies with CRLF and with LF line ends are both around; they differ in nothing else.
    canonical=unix_lines,
)

KDD_HOME = "https://kdd.ics.uci.edu/databases/kddcup99/kddcup99.html"
KDD_TENTH = RawFile(
    "kddcup.data_10_percent.gz",
    "md5:eb43ac454e61166f88aad7943ef1e079",
    (
        UCI + "kddcup99-mld/kddcup.data_10_percent.gz",
        "http://kdd.ics.uci.edu/databases/kddcup99/kddcup.data_10_percent.gz",
    ),
    KDD_HOME,
    unpack.gunzipped,
)
KDD_FULL = RawFile(
    "kddcup.data.gz",
    "md5:13f75aac4e6fb218b8b2e685fb1c637c",
    (
        UCI + "kddcup99-mld/kddcup.data.gz",
        "http://kdd.ics.uci.edu/databases/kddcup99/kddcup.data.gz",
    ),
    KDD_HOME,
    unpack.gunzipped,
)


def _mnist(name: str, sha256: str) -> RawFile:
    # The publisher's own server mostly answers 403 now; the second address is the mirror that
    # PyTorch's maintainers keep. The checksum is the publisher's for both.
    addresses = (
        f"http://yann.lecun.com/exdb/mnist/{name}",
        f"https://ossci-datasets.s3.amazonaws.com/mnist/{name}",
    )
    home = "http://yann.lecun.com/exdb/mnist/"
    return RawFile(name, f"sha256:{sha256}", addresses, home, unpack.gunzipped)


MNIST_PAIRS = (
    (
        _mnist(
            "train-images-idx3-ubyte.gz",
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        ),
        _mnist(
            "train-labels-idx1-ubyte.gz",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        ),
    ),
    (
        _mnist(
            "t10k-images-idx3-ubyte.gz",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        ),
        _mnist(
            "t10k-labels-idx1-ubyte.gz",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
    ),
)
MNIST = tuple(file for pair in MNIST_PAIRS for file in pair)

CIFAR2 = RawFile(
    "cifar10_airplane_bird.npz",
    # Of the arrays' bytes, measured on a copy cut from batches with the published md5 sums.
    "sha256:caee6721e312fa7327f61b820ff726c0029be7bc25bf284aaecffb71e3eaf268",
    ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
    "https://www.cs.toronto.edu/~kriz/cifar.html",
    unpack.cifar_two_classes,
    fingerprint=unpack.cifar_fingerprint,
)

IPUMS = RawFile(
    "ipums.csv",
    None,
    (),
    "https://www.ipums.org (your own extract, with the columns named in docs/data.md)",
)
