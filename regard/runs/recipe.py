"""A run file: one TOML with a table for each part of a run, checked as a whole before anything starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import SettingError, UnknownName, nearest
from regard.model.config import SIZES, ModelConfig
from regard.runs.tables import DataTable, ModelStart, TokenizerTable, TrainingTable, ValidationTable
from regard.runs.toml import NONE, merged, read_toml, write_toml
from regard.settings import Settings

FOLDER = Path(__file__).parent / "recipes"


def recipes() -> dict[str, str]:
    """Every recipe with what its first line says of it."""
    return {path.stem: _first_line(path) for path in sorted(FOLDER.glob("*.toml"))}


def find_recipe(name: str | Path) -> Path:
    """The file of a recipe, or a file of the user's own."""
    if Path(name).suffix == ".toml":
        return Path(name)
    path = FOLDER / f"{name}.toml"
    if not path.is_file():
        raise UnknownName(
            f"unknown recipe {str(name)!r}; {nearest(str(name), recipes())}; a file of your own ends in .toml"
        )
    return path


def _first_line(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.readline().removeprefix("#").strip()


# What a model of each objective is; training/objectives.py has the objectives themselves.
SHAPES: dict[str, dict[str, Any]] = {
    "translation": dict(family="encoder-decoder", output="words"),
    "writing": dict(family="decoder-only", output="words"),
    "masked": dict(family="encoder-only", output="masked"),
    "classification": dict(family="encoder-only", output="classes"),
}
# Of a model: what objective, tokenizer and labels decide.
DECIDED = ("family", "output", "vocabulary", "target_vocabulary", "classes", "vectors")
# Of a model that is loaded: what may be otherwise than in its folder.
TUNABLE = ("from", "dropout", "attention_dropout", "pooling")

_TABLES: dict[str, type[Settings]] = {
    "data": DataTable,
    "tokenizer": TokenizerTable,
    "training": TrainingTable,
    "validation": ValidationTable,
}
_KEYS = ("objective", "model", *_TABLES)


@dataclass(frozen=True)
class Recipe:
    """All settings of a run. `model` holds those of ModelConfig that differ, or `from` and little more."""

    objective: str
    data: DataTable
    tokenizer: TokenizerTable
    model: dict[str, Any]
    training: TrainingTable
    validation: ValidationTable

    @classmethod
    def load(cls, name: str | Path, changes: dict[str, Any] | None = None) -> Recipe:
        """A recipe that ships with Regard, by name, or any TOML file, with some settings replaced."""
        return cls.read(_with_changes(read_toml(find_recipe(name)), changes or {}))

    @classmethod
    def read(cls, values: dict[str, Any]) -> Recipe:
        """The same from parsed tables."""
        for key in values:
            if key not in _KEYS:
                raise SettingError(f"unknown table [{key}]; {nearest(key, _KEYS)}")
        objective = values.get("objective", "none")
        if objective not in SHAPES:
            raise SettingError(f"objective ({objective!r}) is not known; {nearest(objective, SHAPES)}")
        tables = {name: _table(name, owner, values.get(name, {})) for name, owner in _TABLES.items()}
        model = values.get("model", {})
        _check_model(objective, model)
        if "from" in model and values.get("tokenizer"):
            key = next(iter(values["tokenizer"]))
            raise SettingError(
                f"[tokenizer] {key}: a model that starts from {model['from']} has its tokenizer; "
                "leave [tokenizer] out"
            )
        recipe = cls(objective=objective, model=model, **tables)
        recipe.tokenizer.check_names()
        recipe.training.check_names()
        if objective == "masked" and recipe.training.hide:
            raise SettingError("[training] hide: a masked model's text has gaps already; leave it at 0")
        if objective not in ("translation", "classification") and recipe.training.respell:
            raise SettingError(
                f"[training] respell: {objective} scores the tokens themselves, or windows of so many; "
                "leave it at 0"
            )
        if recipe.training.respell_epochs and not recipe.training.respell:
            raise SettingError(
                "[training] respell_epochs: no tokens are broken up; set respell too, or leave it at 0"
            )
        if objective != "translation" and recipe.training.both_ways:
            raise SettingError(f"[training] both_ways: {objective} has no pairs to turn round; leave it at 0")
        if objective != "translation" and recipe.validation.backwards:
            raise SettingError(f"[validation] backwards: {objective} has no way back; leave it at 0")
        return recipe

    @classmethod
    def stored(cls, values: dict[str, Any]) -> Recipe:
        """The same from a run's resolved settings; earlier versions wrote a [tokenizer] beside `from`."""
        model = values.get("model")
        given = isinstance(model, dict) and "from" in model
        return cls.read({key: value for key, value in values.items() if key != "tokenizer" or not given})

    def values(self) -> dict[str, Any]:
        """Every setting with its value, as `read` takes them."""
        return {
            "objective": self.objective,
            "data": _plain(self.data),
            **({} if self.starts_from else {"tokenizer": _plain(self.tokenizer)}),
            "model": self._whole_model(),
            "training": _plain(self.training),
            "validation": _plain(self.validation),
        }

    def to_toml(self) -> str:
        """The resolved run file."""
        return write_toml(self.values())

    def changed(self, changes: dict[str, Any]) -> Recipe:
        """A copy with some settings replaced, checked as a whole."""
        return Recipe.read(merged(self.values(), changes))

    @property
    def starts_from(self) -> Path | None:
        """The model folder that training begins with, if any."""
        return Path(self.model["from"]) if "from" in self.model else None

    def model_config(self, **decided: Any) -> ModelConfig:
        """The config of a new model: the recipe's settings, and what tokenizer and labels decided."""
        size = self.model.get("size")
        known = SIZES.find(size) if size else {}
        given = {key: value for key, value in self.model.items() if key != "size"}
        shape = {key: value for key, value in known.items() if key not in DECIDED}
        return ModelConfig(**{**shape, **given, **SHAPES[self.objective], **decided})

    def _whole_model(self) -> dict[str, Any]:
        if self.starts_from:
            return self.model
        config = self.model_config(**_some_size(self.objective))
        return {key: value for key, value in _plain(config).items() if key not in DECIDED}


def _with_changes(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The file's tables with these replaced, and what else a change of one setting means for another."""
    result = merged(values, changes)
    model, training = changes.get("model"), changes.get("training")
    if isinstance(model, dict) and "from" in model and "from" not in values.get("model", {}):
        # The shape and the tokenizer that the file describes are those of another model.
        own = {key: value for key, value in values.get("model", {}).items() if key in TUNABLE}
        result["model"] = merged(own, model)
        result["tokenizer"] = changes.get("tokenizer", {})
    if isinstance(training, dict) and "steps" in training and "warmup" not in training:
        result["training"] = _warmed_up(result["training"])
    return result


def _warmed_up(training: dict[str, Any]) -> dict[str, Any]:
    """A run made shorter than its warm-up rises in its first tenth."""
    steps, warmup = training["steps"], training.get("warmup", TrainingTable().warmup)
    short = isinstance(steps, int) and isinstance(warmup, int) and steps <= warmup
    return {**training, "warmup": steps // 10} if short else training


def _table(name: str, owner: type[Settings], values: Any) -> Any:
    if not isinstance(values, dict):
        raise SettingError(f"[{name}] must be a table of settings, not {values!r}")
    try:
        return owner.read({key: _switched_off(owner, key, value) for key, value in values.items()})
    except SettingError as error:
        raise SettingError(f"[{name}] {error}") from None


def _switched_off(owner: type[Settings], key: str, value: Any) -> Any:
    """None for "none", where a setting may be switched off and is on by default."""
    field = owner.model_fields.get(key)
    optional = field is not None and field.default is not None and "None" in str(field.annotation)
    return None if value == NONE and optional else value


def _plain(settings: Settings) -> dict[str, Any]:
    fields = type(settings).model_fields
    values = settings.model_dump()
    cleared = {
        key: NONE for key, value in values.items() if value is None and fields[key].default is not None
    }
    return {key: value for key, value in {**values, **cleared}.items() if value is not None}


def _check_model(objective: str, model: Any) -> None:
    if not isinstance(model, dict):
        raise SettingError(f"[model] must be a table of settings, not {model!r}")
    decided = [key for key in model if key in DECIDED]
    if decided:
        raise SettingError(f"[model] {decided[0]} follows from objective, tokenizer and data; leave it out")
    _table("model", ModelStart, {key: model[key] for key in ("from", "size") if key in model}).check_names()
    if "from" in model:
        other = [key for key in model if key not in TUNABLE]
        if other:
            known = ", ".join(TUNABLE)
            raise SettingError(f"[model] {other[0]}: beside from = FOLDER may stand: {known}")
        return
    given = {key: value for key, value in model.items() if key != "size"}
    sample = {**SIZES.find(model["size"]), **given} if "size" in model else given
    shape = {key: value for key, value in sample.items() if key not in DECIDED}
    try:
        ModelConfig(**{**shape, **SHAPES[objective], **_some_size(objective)}).check_names()
    except SettingError as error:
        raise SettingError(f"[model] {error}") from None


def _some_size(objective: str) -> dict[str, int]:
    """Sizes that are not known yet, so that the rest can be checked."""
    return {"vocabulary": 8, "classes": 2} if objective == "classification" else {"vocabulary": 8}
