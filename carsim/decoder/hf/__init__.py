"""Traces of real checkpoints of Hugging Face transformers and diffusers, driven by hooks.

A leaf of the decoder: only the capture of a recipe that names a checkpoint imports it.

Taken are models of LLaMA's type: LLaMA, Mistral, Qwen 2 and 3; and pipelines of diffusers, whose
networks :mod:`~carsim.decoder.hf.networks` lists. Importing this package imports neither PyTorch
nor transformers nor diffusers (extras ``hf`` and ``diffusers``); loading does. How an owner of
VILA-U plugs in its depth transformer is told at
:class:`~carsim.decoder.hf.sampling.StepModel`.
"""

from carsim.decoder.hf.capture import capture_hf as capture_hf
from carsim.decoder.hf.checkpoint import HfModel as HfModel
from carsim.decoder.hf.checkpoint import load_checkpoint as load_checkpoint
from carsim.decoder.hf.checkpoint import read_geometry as read_geometry
from carsim.decoder.hf.pipeline import capture_pipeline as capture_pipeline
from carsim.decoder.hf.pipeline import load_pipeline as load_pipeline
from carsim.decoder.hf.sampling import StepModel as StepModel
