"""Read, check and sign the papers of a released model.

A **bundle** is a directory with `model.safetensors` (the weights), `certificate.json` (what is
promised, every number behind it, and what is not covered) and perhaps `certificate.json.sig`.
Nothing in it can run code.

`verify` computes the promise again from the recorded numbers. That the noise was really added is
taken on trust, and **without a signature only accidents are detected, not forgers**.

Exit code 0: the promise holds. 1: it does not, or there is none, and a sentence says why. 2: wrong
usage.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sordino import checks
from sordino.cli.options import Json, argument, option
from sordino.cli.terminal import add_note, ask, block, say

if TYPE_CHECKING:
    from sordino.release.verify import Verdict

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", help=__doc__)

_PAPERS = "A bundle's directory, or a certificate alone, of a model or a pipeline."
_Papers = Annotated[Path, argument("PATH", _PAPERS)]


@app.command()
def show(path: _Papers, json: Json = False) -> None:
    """Say in plain words what is promised, for whom, how, and what is NOT covered.

    It is verified first, and what does not hold up is shown as NOT VERIFIED, with exit code 1.
    Example: `sordino certificate show model/`
    """
    from sordino.release import pipeline
    from sordino.release.certificate import CertificateError

    certificate, _ = pipeline.read_either(path)
    state, code = "Verified just now.", 0
    try:
        _verdict(path)
    except CertificateError as reason:
        state, code = f"NOT VERIFIED, so nothing below is proved: {reason}", 1
    say(state, err=json)
    block(certificate.to_json() if json else f"\n{certificate}\n")
    raise typer.Exit(code)


@app.command()
def verify(
    path: _Papers,
    key: Annotated[Path | None, option(None, "Who must have signed it.", metavar="PUBLIC")] = None,
) -> None:
    """Compute the promise again from the recorded numbers, and refuse a claim that is better.

    Also checked: that the weights are the certified ones, and with `--key` who signed. Of a
    certificate.json alone only the promise is checked. Where nothing is promised it exits with 1.

    `sordino certificate verify model/`

    `sordino certificate verify model/ --key them.public.pem`

    OpenSSL can check the signature as well: `openssl pkeyutl -verify -pubin -inkey them.public.pem
    -rawin -in model/certificate.json -sigfile model/certificate.json.sig`
    """
    verdict = _verdict(path, key)
    say(*verdict.findings, hang=True)
    if verdict.guarantee is None:  # a script that asks before it publishes must not go on
        raise typer.Exit(1)


@app.command()
def sign(
    directory: Annotated[Path, argument("DIR", "A bundle's directory, as a release wrote it.")],
    key: Annotated[Path, option(None, "Your Ed25519 key: PEM or OpenSSH.", metavar="PRIVATE")],
) -> None:
    """Sign a bundle's certificate, and with it the weights, with your own key.

    The bundle is verified first: what does not hold is not signed. An earlier signature is
    replaced. Example: `sordino certificate sign model/ --key me.pem`
    """
    from sordino.release import bundle, signature
    from sordino.release import verify as verifying

    private = signature.load_private(key, lambda: ask("Passphrase"))
    content = bundle.read(directory)
    verdict = verifying.verify(content)
    path = bundle.write_signature(directory, signature.sign(content.certificate_bytes, private))
    name = signature.key_name(private.public_key())
    if verdict.guarantee is None:
        say("You signed a certificate by which NOTHING IS PROMISED.", err=True)
    with add_note(f"The signature is in {path}."):
        say(f"Signed by the key {name}: {path}")


@app.command("new-key")
def new_key(
    private: Annotated[Path, argument(None, "Where the key goes. Keep it secret.")],
    public: Annotated[Path | None, argument(None, "Default: PRIVATE.public.pem.")] = None,
    passphrase: Annotated[bool, option(None, "Ask for one to lock it.", "--passphrase")] = False,
) -> None:
    """Make an Ed25519 key to sign with; neither file may exist.

    Give the public half to whoever will verify, by a way that they trust: a forger would send
    his own. A key of `ssh-keygen -t ed25519` does as well.

    `sordino certificate new-key me.pem`
    """
    from sordino.release import signature

    if not private.name:
        checks.fail("private", str(private), "to be the name of a file", "Pass me.pem, say.")
    beside = public if public is not None else private.with_name(f"{private.stem}.public.pem")
    secret = ask("Passphrase", twice=True) if passphrase else ""
    name = signature.key_name(signature.new_key(private, beside, secret))
    with add_note(f"The key is in {private}, its public half in {beside}."):
        say(f"Private key, for you alone: {private}", f"Public key: {beside}", f"Its name: {name}")


def _verdict(path: Path, key: Path | None = None) -> Verdict:
    """What there is to say of a bundle, or of a certificate alone."""
    from sordino.release import bundle, pipeline, signature
    from sordino.release import verify as verifying

    public = None if key is None else signature.load_public(key)
    if path.is_dir():
        return verifying.verify(bundle.read(path), public_key=public)
    certificate, content = pipeline.read_either(path)
    if public is not None:
        checks.fail("path", path, "to be a bundle's directory where --key is given")
    if isinstance(certificate, pipeline.PipelineCertificate):
        return pipeline.verify_pipeline(certificate, content)
    return verifying.verify_certificate(certificate, content)
