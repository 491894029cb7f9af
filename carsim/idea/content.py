"""What an idea is tried on: a small trained model, its codebook, and held-out scenes.

The wheel has them as package data; a checkout has them in ``studies/proxy`` and ``traces``.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from carsim.base.errors import InputError
from carsim.base.section import tuples
from carsim.decisions.attention import PLAIN
from carsim.decoder.content import load_codebook, load_scene
from carsim.decoder.content.scenes import scene_caption
from carsim.decoder.recipe import Recipe

PACES = ("still", "slow", "lively", "fast", "cut")
BENCHMARK_SCENES = tuple(f"{pace}_{number}" for number in range(8) for pace in PACES)
"""Forty held-out scenes; the first five have one pace each."""

TUNING_SCENES = ("tune_0", "tune_1")
"""Scenes on which thresholds are searched."""

EXEMPT_LAYERS = (0,)
"""The layer that loses most if it replays."""

N_LAYERS = 4
PROMPT_TOKENS = 62

_MODEL = {
    "name": "small-128",
    "n_layers": N_LAYERS,
    "hidden_size": 128,
    "n_heads": 1,
    "n_kv_heads": 1,
    "head_dim": 8,
    "ffn_size": 1024,
}


@dataclass(frozen=True)
class Content:
    """Files of the small model.

    Attributes:
        weights: Checkpoint of four layers with one head of eight.
        codebook: Visual tokens.
        scenes: Codes of scenes.
    """

    weights: Path
    codebook: Path
    scenes: Path

    def recipe(self, scenes: tuple[str, ...], n_frames: int, **fields: object) -> Recipe:
        """A recipe that decodes some scenes with their true tokens fed.

        Args:
            scenes: Names of scenes; each gives a guidance pair.
            n_frames: T.
            fields: Further fields of a recipe, such as ``rule`` and ``tau``.
        """
        n_codes = load_codebook(self.codebook).n_codes
        captions = [
            scene_caption(load_scene(self.scenes, name, n_frames, n_codes)) for name in scenes
        ]
        clips = [
            {"scene": name, "caption": caption}
            for name, caption in zip(scenes, captions, strict=True)
        ]
        usual: dict[str, Any] = {
            "name": "idea",
            "output": "idea.npz",
            "decoded": _MODEL,
            "weights": str(self.weights),
            "codebook": str(self.codebook),
            "scenes": str(self.scenes),
            "clips": clips,
            "n_frames": n_frames,
            "prompt_tokens": PROMPT_TOKENS,
            "tau": None,
            "attention": PLAIN.model_dump(),
            "seed": 1,
        }
        return Recipe.model_validate(tuples(usual | fields))


def shipped_content() -> Content:
    """The files, of the wheel or of the checkout.

    Raises:
        InputError: They are in neither.
    """
    package = Path(__file__).parent / "data"
    checkout = Path(__file__).parents[2]
    for content in (
        Content(
            weights=package / "small.safetensors",
            codebook=package / "codebook_512.npz",
            scenes=package / "scenes.npz",
        ),
        Content(
            weights=checkout / "studies/proxy/small.safetensors",
            codebook=checkout / "traces/codebook_512.npz",
            scenes=checkout / "traces/scenes.npz",
        ),
    ):
        if content.weights.is_file():
            return content
    raise InputError("carsim idea", f"has no model in {package}", "install the wheel again")
