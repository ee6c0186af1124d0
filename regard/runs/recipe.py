"""A recipe: one TOML file with a table for each concern of a run, checked before anything starts."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from regard.checkpoints.format1 import FORMAT, check_format, read_recipe
from regard.errors import SettingError, nearest
from regard.model.config import SIZES, ModelConfig
from regard.runs.recipe_files import find_recipe
from regard.runs.sizing import SHAPE, shapes
from regard.runs.tables import (
    MODEL_KEYS,
    AugmentTable,
    DataTable,
    ModelTable,
    TokenizerTable,
    TrainingTable,
    ValidationTable,
)
from regard.runs.toml import NONE, merged, read_toml, write_toml
from regard.settings import Settings
from regard.training.settings import (
    AveragingSettings,
    CheckpointSettings,
    DistributedSettings,
    LoopSettings,
    OptimizerSettings,
    ScheduleSettings,
    TrainingSettings,
    ValidationSchedule,
)

if TYPE_CHECKING:
    from regard.runs.tasks.task import Task

PUBLISHED = ("paper-base", "paper-big")  # their settings are those of a paper; `minutes` changes their length
# Settings of ModelConfig that follow from task, tokenizer and labels.
DECIDED = ("family", "output", "vocabulary", "target_vocabulary", "classes", "vectors")
TOKENIZER_FROM = "tokenizer.init_from"
# Settings of ModelConfig that may differ from those of the model that training starts with.
TUNABLE = ("dropout", "attention_dropout", "pooling")
# Given settings that the other numbers of a size have to fit.
_SIZING = (*(f"model.{key}" for key in SHAPE), "architecture.key_value_heads")
ARCHITECTURE_KEYS = tuple(key for key in ModelConfig.model_fields if key not in (*MODEL_KEYS, *DECIDED))


def find_task(name: str) -> Task:
    """The task of this name; imports torch."""
    from regard.runs.tasks.registry import TASKS

    return TASKS.find(name)


@dataclass(frozen=True)
class Recipe:
    """All settings of a run.

    `model` has `size` or `init_from`, and the settings of ModelConfig that the recipe gives, those of
    [architecture] included.
    """

    task: str
    data: DataTable
    tokenizer: TokenizerTable
    model: dict[str, Any]
    training: TrainingTable
    optimizer: OptimizerSettings
    schedule: ScheduleSettings
    averaging: AveragingSettings
    augment: AugmentTable
    checkpoints: CheckpointSettings
    validation: ValidationTable
    distributed: DistributedSettings
    # Settings given for this run, and those of a person's own file, as "training.steps";
    # `training.minutes` chooses the others.
    given: frozenset[str] = field(default=frozenset(), compare=False)
    kept: frozenset[str] = field(default=frozenset(), compare=False)

    @classmethod
    def load(cls, name: str | Path, changes: dict[str, Any] | None = None) -> Recipe:
        """A recipe that ships with Regard, by name, or any TOML file, with some settings replaced."""
        path, changes = find_recipe(name), changes or {}
        file = read_toml(path.resolve() if path.is_symlink() else path)
        for level in (file, changes):
            _check_length(level)
        is_kept = Path(name).suffix == ".toml" or name in PUBLISHED
        given, kept = names_of(changes), names_of(file) if is_kept else frozenset()
        for level in (given, kept):
            _check_tokenizer(level)
        values = _with_fitting_size(_with_changes(file, changes), given | kept)
        return replace(cls.read(values), given=given, kept=kept)

    @classmethod
    def stored(cls, path: Path) -> Recipe:
        """The recipe.toml of a run, of this format or of format 1."""
        return cls.read(read_recipe(path, read_toml(path)))

    @classmethod
    def read(cls, values: dict[str, Any]) -> Recipe:
        """The recipe of these parsed tables."""
        known = ("task", "model", "architecture", *TABLES)
        for key in values:
            if key not in (*known, "format"):
                raise SettingError(f"unknown table [{key}]; {nearest(key, known)}")
        check_format("the recipe", values.get("format", FORMAT))
        task = values.get("task")
        if not isinstance(task, str):
            raise SettingError(f'task ({task!r}) must be the name of a task, such as "translation"')
        tables = {name: _table(name, owner, values.get(name, {})) for name, owner in TABLES.items()}
        model = {**_model_table(values, "model"), **_model_table(values, "architecture")}
        _check_model(find_task(task), model)
        if "init_from" in model and values.get("tokenizer"):
            key = next(iter(values["tokenizer"]))
            raise SettingError(
                f"[tokenizer] {key}: a model that starts from {model['init_from']} has its tokenizer; "
                "leave [tokenizer] out"
            )
        recipe = cls(task=task, model=model, **tables)
        recipe.check()
        return recipe

    def check(self) -> None:
        """Refuse unknown names, and settings that do not go with the task or with each other."""
        for table in (self.tokenizer, self.optimizer, self.schedule, self.averaging, self.distributed):
            table.check_names()
        self.trainer_settings()
        self._check_task()

    def _check_task(self) -> None:
        task, validation = find_task(self.task), self.validation
        for name, value in self.augment.model_dump().items():
            if value and name not in task.augmentations:
                raise SettingError(f"[augment] {name} is not for {self.task}; set it to 0")
        if self.training.class_weights != "none" and task.output != "classes":
            raise SettingError(f"[training] class_weights is not for {self.task}; set it to none")
        if self.augment.bpe_dropout_epochs and not self.augment.bpe_dropout:
            raise SettingError(
                "[augment] bpe_dropout_epochs needs bpe_dropout above 0; set bpe_dropout, or set it to 0"
            )
        if validation.channel_weight and "bidirectional_epochs" not in task.augmentations:
            raise SettingError(f"[validation] channel_weight is not for {self.task}; set it to 0")
        if validation.monitor not in task.metrics:
            known = ", ".join(task.metrics)
            raise SettingError(
                f"[validation] monitor ({validation.monitor}) must be one of {known} for {self.task}"
            )
        if validation.monitor in ("bleu", "chrf") and not validation.sentences:
            raise SettingError(
                f"[validation] monitor ({validation.monitor}) needs sentences above 0; set sentences"
            )

    def trainer_settings(self) -> TrainingSettings:
        """The settings that the Trainer reads."""
        loop = self.training.model_dump(include=set(LoopSettings.model_fields))
        if loop["precision"] == "auto":  # a run replaces it by what it has measured
            loop["precision"] = "float32"
        validation = self.validation.model_dump(include=set(ValidationSchedule.model_fields))
        return TrainingSettings(
            **loop,
            optimizer=self.optimizer,
            schedule=self.schedule,
            averaging=self.averaging,
            checkpoints=self.checkpoints,
            validation=ValidationSchedule(**validation),
            distributed=self.distributed,
        )

    def values(self) -> dict[str, Any]:
        """Every setting with its value, as `read` takes them."""
        values: dict[str, Any] = {"format": FORMAT, "task": self.task}
        for name in (each.name for each in fields(self)):
            if name == "model":
                values["model"], values["architecture"] = self._model_tables()
            elif name in TABLES and not (name == "tokenizer" and self.starts_from):
                values[name] = _plain(getattr(self, name))
        if self.tokenizer.init_from is not None:
            values["tokenizer"] = {"init_from": self.tokenizer.init_from}
        return values

    def to_toml(self) -> str:
        """The recipe with every setting, as TOML."""
        return write_toml(self.values())

    def changed(self, changes: dict[str, Any]) -> Recipe:
        """A copy with some settings replaced, checked as a whole."""
        return replace(Recipe.read(merged(self.values(), changes)), given=self.given, kept=self.kept)

    def is_given(self, name: str) -> bool:
        """Whether a setting was given for this run, or in a person's own file."""
        return name in self.given | self.kept

    @property
    def starts_from(self) -> Path | None:
        """The model folder that training starts with, if any."""
        return Path(self.model["init_from"]) if "init_from" in self.model else None

    def model_config(self, **decided: Any) -> ModelConfig:
        """The config of a new model: the recipe's settings, and what tokenizer and labels decided."""
        return ModelConfig(**{**_sized(self.model), **self._shape(), **decided})

    def _shape(self) -> dict[str, str]:
        task = find_task(self.task)
        return {"family": task.family, "output": task.output}

    def _model_tables(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """[model] and [architecture]."""
        values = self.model
        if not self.starts_from:
            values = _plain(self.model_config(**find_task(self.task).placeholder_sizes()))
        return (
            {key: value for key, value in values.items() if key not in (*ARCHITECTURE_KEYS, *DECIDED)},
            {key: value for key, value in values.items() if key in ARCHITECTURE_KEYS},
        )


_NO_TABLES = ("task", "model", "given", "kept")
TABLES: dict[str, type[Settings]] = {
    name: owner for name, owner in get_type_hints(Recipe).items() if name not in _NO_TABLES
}


def names_of(values: dict[str, Any]) -> frozenset[str]:
    """The settings of parsed tables by name: {"training.steps", "model.width"}."""
    tables = {name: table for name, table in values.items() if isinstance(table, dict)}
    return frozenset(f"{name}.{key}" for name, table in tables.items() for key in table)


def _check_length(values: dict[str, Any]) -> None:
    training = values.get("training", {})
    if isinstance(training, dict) and {"steps", "minutes"} <= training.keys():
        raise SettingError(
            f"steps ({training['steps']}) and minutes ({training['minutes']}) both set the length of "
            "training; leave one of them out"
        )


def _check_tokenizer(names: frozenset[str]) -> None:
    """Refuse settings of a new tokenizer beside a folder that has one."""
    others = sorted(name for name in names if name.startswith("tokenizer.") and name != TOKENIZER_FROM)
    if TOKENIZER_FROM in names and others:
        raise SettingError(
            f"{others[0]} is for a new tokenizer, and {TOKENIZER_FROM} names one that is used as it is; "
            "leave one of them out"
        )


def _with_changes(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The file's tables with these settings replaced, and others that follow from the change."""
    result = merged(values, changes)
    given = {name: table for name, table in changes.items() if isinstance(table, dict)}
    if "init_from" in given.get("model", {}) and "init_from" not in values.get("model", {}):
        # The file describes the size and the tokenizer of another model.
        for table in ("model", "architecture"):
            own = {key: value for key, value in values.get(table, {}).items() if key in TUNABLE}
            result[table] = merged(own, changes.get(table, {}))
        result["tokenizer"] = changes.get("tokenizer", {})
    if "init_from" in given.get("tokenizer", {}):
        result["tokenizer"] = given["tokenizer"]
    if "size" in given.get("model", {}):  # its numbers are in place of the file's
        _remove_size(result, given)
    if "steps" in given.get("training", {}):
        result["training"].pop("minutes", None)  # the file's
    if "steps" in given.get("training", {}) and "warmup_steps" not in given.get("schedule", {}):
        result["schedule"] = _with_shorter_warmup(result.get("schedule", {}), result["training"]["steps"])
    return result


def _remove_size(values: dict[str, Any], given: dict[str, Any]) -> None:
    """Remove the numbers of a model that the given size replaces, and that were not given beside it."""
    named = SIZES.get(given["model"]["size"], {})
    for table in ("model", "architecture"):
        beside = given.get(table, {})
        kept = {
            key: value
            for key, value in values.get(table, {}).items()
            if key in beside or key not in (*SHAPE, *named)
        }
        values[table] = kept


def _with_fitting_size(values: dict[str, Any], given: frozenset[str]) -> dict[str, Any]:
    """With `minutes` and some numbers of a size given: others that fit them, since all are chosen later."""
    names = names_of(values)  # a change may have removed some that the file gives
    pairs = ((name, *name.split(".")) for name in given & names if name in _SIZING)
    known = {name: values[table][key] for name, table, key in pairs}
    if not known or "training.minutes" not in names or names & {"model.size", "model.init_from"}:
        return values
    if any(type(value) is not int or value < 1 for value in known.values()):
        return values  # refused when the table is read
    model = values.get("model", {})
    shape = shapes(find_task(values.get("task", "")).rules, known)[0]
    return {**values, "model": {**model, **vars(shape)}}


def _with_shorter_warmup(schedule: dict[str, Any], steps: Any) -> dict[str, Any]:
    """A tenth of the steps as warm-up where a run is made shorter than the recipe's warm-up."""
    warmup = schedule.get("warmup_steps", ScheduleSettings().warmup_steps)
    is_short = isinstance(steps, int) and isinstance(warmup, int) and steps <= warmup
    return {**schedule, "warmup_steps": steps // 10} if is_short else schedule


def _table(name: str, owner: type[Settings], values: Any) -> Any:
    _check_keys(name, values, owner.model_fields)
    try:
        return owner.read({key: _switched_off(owner, key, value) for key, value in values.items()})
    except SettingError as error:
        raise SettingError(f"[{name}] {error}") from None


def _check_keys(name: str, values: Any, known: Any) -> None:
    """Refuse a key that is in no table, or in another one, which is then named."""
    if not isinstance(values, dict):
        raise SettingError(f"[{name}] must be a table of settings, not {values!r}")
    for key in values:
        if key not in known and (tables := _tables_with(key)):
            raise SettingError(f"[{name}] {key} belongs to {' or '.join(f'[{table}]' for table in tables)}")


def _tables_with(key: str) -> list[str]:
    """The tables that have a setting of this name."""
    keys = {name: tuple(owner.model_fields) for name, owner in TABLES.items()}
    keys |= {"model": (*ModelTable.model_fields, *MODEL_KEYS), "architecture": ARCHITECTURE_KEYS}
    return [name for name, names in keys.items() if key in names]


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


def _model_table(values: dict[str, Any], name: str) -> dict[str, Any]:
    """[model] or [architecture], with keys that belong there."""
    table = values.get(name, {})
    known = (*ModelTable.model_fields, *MODEL_KEYS) if name == "model" else ARCHITECTURE_KEYS
    if isinstance(table, dict):
        for key in (key for key in table if key in DECIDED):
            raise SettingError(f"[{name}] {key} follows from task, tokenizer and data; leave it out")
    _check_keys(name, table, known)
    for key in (key for key in table if key not in known):
        raise SettingError(f"[{name}] unknown setting {key!r}; {nearest(key, known)}")
    return table


def _check_model(task: Task, model: dict[str, Any]) -> None:
    """Refuse a size, a folder or settings of ModelConfig that cannot be."""
    start = {key: model[key] for key in ModelTable.model_fields if key in model}
    _table("model", ModelTable, start).check_names()
    if "init_from" in model:
        others = [key for key in model if key not in ("init_from", *TUNABLE)]
        if others:
            raise SettingError(
                f"[model] {others[0]} is that of the model in init_from; only {', '.join(TUNABLE)} may be set"
            )
        return
    try:
        shape = {"family": task.family, "output": task.output}
        ModelConfig(**{**_sized(model), **shape, **task.placeholder_sizes()}).check_names()
    except SettingError as error:
        raise SettingError(f"[model] {error}") from None


def _sized(model: dict[str, Any]) -> dict[str, Any]:
    """Settings of ModelConfig: those of the named size, replaced by those given."""
    size = SIZES.find(model["size"]) if "size" in model else {}
    given = {key: value for key, value in model.items() if key != "size"}
    return {key: value for key, value in {**size, **given}.items() if key not in DECIDED}
