"""What can be set: by argument, then by environment (``ATC_MODEL``), then by ``atc.toml`` in the working folder."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import platformdirs
from pydantic import BeforeValidator, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from atc._host.addresses import is_safe_address
from atc._host.trust import TrustedFileSource
from atc._records.choices import ApproveChoice, AskUserChoice, WarningsChoice
from atc._records.prices import Price
from atc._records.rules import Rules, parse_rules
from atc.errors import SettingsError
from atc.parts import RETRIEVAL


def _names(value: Any) -> Any:
    """``"numpy, pandas"`` as a list."""
    return [name for part in value.split(",") if (name := part.strip(" []\"'"))] if isinstance(value, str) else value


ShowValues = Literal["previews", "keys", "never"]
"""How much of tools' responses the prompt of a revision shows."""
MAX_INSTRUCTIONS = 4_000
"""Characters of standing instructions."""

Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_names)]


def _beside_runs(known: dict[str, Any], name: str) -> Path:
    """Return a folder beside the one of runs, whatever that is; pydantic gives the values that it knows so far."""
    runs: Path | None = known.get("runs_dir")
    return (runs.parent if runs is not None else Path(platformdirs.user_state_dir("atc"))) / name


class Settings(BaseSettings):
    """All settings with their defaults. ``Settings.load(**given)`` reads the other sources too."""

    model_config = SettingsConfigDict(env_prefix="ATC_", extra="forbid", frozen=True, defer_build=True)

    model: str | None = Field(
        None, description="`embedded`, `embedded:NAME`, a model's name at the endpoint, or PROVIDER:NAME"
    )
    base_url: str | None = Field(None, description="OpenAI-compatible endpoint; default: OPENAI_BASE_URL")
    api_key: SecretStr | None = Field(None, description="key of the endpoint; default: OPENAI_API_KEY")
    cache: bool = Field(False, description="keep the model's replies on disk and use them again")
    temperature: float = Field(0.0, ge=0, le=2, description="sampling temperature of the first program")
    seed: int = Field(0, ge=0, description="seed of the sampling, if the endpoint takes one")
    max_tokens: int = Field(1024, ge=16, description="most tokens of one reply")
    thinking_tokens: int = Field(8192, ge=0, description="most tokens of thinking before a reply, besides `max_tokens`")

    extra_body: dict[str, Any] = Field(
        {}, description='more fields of each request to an endpoint, as JSON: `{"reasoning_effort": "low"}`'
    )
    context_tokens: int | None = Field(
        None, ge=512, description="most tokens of prompt and reply together; default: what the model reports"
    )
    prompt_tokens: int | None = Field(
        None,
        ge=256,
        description="most tokens of a prompt; default: 4,000 for the local model, else what the context allows",
    )
    keep_prompts: Literal["tools", "instructions", "nothing"] = Field(
        "tools",
        description="the prompt caches that the local model keeps on disk: `tools` (the tools' documents and the "
        "instructions), only `instructions`, or `nothing`",
    )
    model_stall_s: float = Field(
        300.0, gt=0, description="seconds without output of the model's endpoint after which a request is given up"
    )

    stub_tokens: int = Field(
        6_000,
        ge=1,
        description="tokens of the tools' documents in a prompt: all tools are shown whole if they fit, else the "
        "likeliest in half of it",
    )
    list_tokens: int = Field(
        8_000,
        ge=0,
        description="tokens of the list of names and arguments that a prompt has where not all tools are shown whole; "
        "0: no list",
    )
    retrieval: str = Field(
        "auto",
        description="how tools are found: `auto` (by words, and by meaning if an embedding model is there), `lexical` "
        "(by words), `hybrid` (all that the index can), or an installed way",
    )
    tool_index: str | None = Field(None, description="folder of an index of the tools (`atc tools index`)")
    find_tools: bool = Field(
        True,
        description="let programs ask for tools that were left out and for documents that were cut, and look at values",
    )
    probe: Literal["off", "reads"] = Field(
        "off",
        description="`reads`: before the first program, call offered tools whose response no document "
        "describes, if they only read and their arguments are known: 10 calls and 5 seconds at most",
    )
    strategy: str = Field("chain", description="how tasks are solved: a strategy's name, MODULE:NAME or FILE.py:NAME")
    max_revisions: int = Field(3, ge=0, description="programs that run after the first (α of the paper)")
    check: bool = Field(True, description="check programs before they run")
    rules: str = Field(
        "default",
        description="rules that help small models: `default` (all), `none`, or changes such as `-id,-id` or `none,+id`",
    )
    show_values: ShowValues = Field(
        "previews",
        description="what a model is shown of responses after its program failed: `previews` (excerpts, secrets "
        "masked), `keys` (keys and types, no values) or `never`; the words of an error are always shown",
    )
    answer: str | None = Field(
        None, description="type of the value: number, text, list, yes/no, record, FILE.json or MODULE:TYPE"
    )
    sentence: bool = Field(True, description="let a program give its result in a sentence")

    instructions: str = Field(
        "", max_length=MAX_INSTRUCTIONS, description="standing wishes for every task, such as `answer in German`"
    )
    reuse_reads_s: float = Field(
        300.0,
        ge=0,
        description="seconds for which reads are used again: a conversation's earlier ones, and those of a run "
        "that waited for approval; 0: never",
    )

    approve: ApproveChoice | None = Field(
        None,
        description="calls that are not reads: ask, never, always or park (the run ends, and waits for approval); "
        "default: ask on a terminal, else never",
    )
    warnings: WarningsChoice = Field(
        "ask", description="such calls, if they depend on a warning of the check: ask (always needs approval), or allow"
    )

    permissions: Path | None = Field(
        None,
        description="file of rules: which calls are made without approval, need it or are denied; "
        "default: `permissions.toml` in your configuration folder, if it is there",
    )
    read_only: bool = Field(False, description="make only reads, and offer only tools that read")
    audit: Path = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("atc")) / "audit.jsonl",
        description="file of the audit log: decisions about calls; always in `atc mcp`, else if there are permissions",
    )

    approver_key: SecretStr | None = Field(
        None, description="key of an approver, who decides about calls that wait (`atc permissions approver`)"
    )

    approval_url: str | None = Field(
        None,
        max_length=2_000,
        description="address that receives what waits for approval, and may decide: https, or http to this machine",
    )
    approval_secret: SecretStr | None = Field(
        None, min_length=16, description="secret that signs what is sent to `approval_url`, and its answers"
    )

    ask_user: AskUserChoice = Field(
        "never",
        description="whether programs may ask the user: `never`, `ask` (at the terminal; without one as `stop`), or "
        "`stop` (the run ends with the question, and is resumed with its answer)",
    )

    ask_form: Literal["empty", "tick"] = Field(
        "empty",
        description="how `atc mcp` asks a client's user: `empty` (accepting the form approves) or `tick` (a box must "
        "be ticked too, which a client that accepts by itself does not do)",
    )
    ask_wait_s: float = Field(600, gt=0, description="seconds that such a question may stay unanswered")

    sandbox: str = Field(
        "process",
        description="where programs run: `process`, `docker`, `docker:strict`, a service's address, or an added driver",
    )
    sandbox_require: Literal["N", "L", "F"] = Field(
        "L", description="the least isolation to accept: N namespaces, L Landlock, F no files; the best is used"
    )
    sandbox_preload: Names = Field((), description="packages that programs may use besides the standard library")
    sandbox_image: str = Field("atc-sandbox", description="image of the docker driver (`make image` builds it)")
    sandbox_token: SecretStr | None = Field(None, description="token of the sandbox service")
    wall_s: float = Field(120.0, gt=0, description="seconds that a program may run")
    cpu_s: int = Field(30, ge=1, description="processor seconds that a program may use")
    host_s: float = Field(
        60.0, gt=0, allow_inf_nan=False, description="processor seconds that the host may spend on a program's calls"
    )
    memory_mb: int = Field(1024, ge=128, description="address space of a program, MiB")
    max_calls: int = Field(200, ge=1, description="most tool calls of a run")
    call_timeout_s: float = Field(30.0, gt=0, description="seconds for one tool call, its retries included")

    budget_model_calls: int | None = Field(None, ge=1, description="most model calls of a run")
    budget_tokens: int | None = Field(None, ge=1, description="most tokens of a run, prompts and replies together")
    budget_s: float | None = Field(None, gt=0, description="most seconds of a run")
    budget_money: Decimal | None = Field(
        None, gt=0, description="most money that a run may cost, in `currency`; needs the model's price in `prices`"
    )
    prices: dict[str, Price] = Field(
        default_factory=dict,
        description="prices by the model's name: `input`, `output` and `cached`, for a million tokens",
    )
    currency: str = Field(
        "USD", pattern=r"^[^\W\d_]{1,12}$", description="currency of `prices` and `budget_money`, as a word"
    )

    runs_dir: Path = Field(
        default_factory=lambda: Path(platformdirs.user_state_dir("atc")) / "runs",
        description="folder in which runs are kept",
    )
    kept_dir: Path = Field(
        default_factory=lambda data: _beside_runs(data, "kept"),
        description="folder of the programs that you kept as tools; by default next to the one of runs",
    )
    store: SecretStr | None = Field(
        None, description="database of runs instead of a folder, for many machines: `postgresql://USER@HOST/NAME`"
    )
    store_lease_s: float = Field(
        30.0,
        ge=1,
        le=3600,
        description="seconds after which another machine may continue a run, if its process does not renew the lease",
    )
    keep_runs: bool = Field(True, description="write a trace and a journal of every run")
    runs_kept: int = Field(
        500, ge=1, description="how many of the newest runs are kept, besides those in progress or in doubt"
    )
    runs_kept_days: float | None = Field(
        None, gt=0, description="days for which runs are kept, besides those in progress or in doubt; default: for ever"
    )

    otel: bool = Field(
        False,
        description="report runs as OpenTelemetry spans and metrics, as the OTEL_* variables configure",
    )

    learn: bool = Field(
        True, description="learn from runs which tools work together (names and counts, never values), and use it"
    )
    catalogue: Path = Field(
        default_factory=lambda: Path(platformdirs.user_cache_dir("atc")) / "catalogue",
        description="folder of what runs have taught, and of the indexes that ATC makes by itself",
    )

    @field_validator("approval_url")
    @classmethod
    def _safe_address(cls, url: str | None) -> str | None:
        if url is not None and not is_safe_address(url):
            raise PydanticCustomError(
                "approval_url", "it takes an https address, or http to this machine, without a user or password in it"
            )
        return url

    @model_validator(mode="after")
    def _signed_address(self) -> Settings:
        if self.approval_url is not None and self.approval_secret is None:
            raise PydanticCustomError(
                "approval_secret", "approval_url needs approval_secret, which signs (ATC_APPROVAL_SECRET)"
            )
        return self

    @model_validator(mode="after")
    def _learns_what_it_probes(self) -> Settings:
        if self.probe != "off" and not self.learns:
            raise PydanticCustomError(
                "probe",
                "probe=reads keeps what it finds, and here nothing is learnt: set learn=true, or leave one of them out",
            )
        return self

    @field_validator("retrieval")
    @classmethod
    def _known_retrieval(cls, name: str) -> str:
        if not RETRIEVAL.has(name):
            raise PydanticCustomError("retrieval", "there are {known}", {"known": ", ".join(RETRIEVAL.names())})
        return name

    @field_validator("rules")
    @classmethod
    def _known_rules(cls, text: str) -> str:
        try:
            parse_rules(text)
        except ValueError as error:
            raise PydanticCustomError("rules", "{problem}", {"problem": str(error)}) from None
        return text

    @property
    def learns(self) -> bool:
        """Whether runs are learnt from. One that is not kept is not, unless ``learn`` was set too."""
        return self.learn and (self.keep_runs or "learn" in self.model_fields_set)

    @property
    def secrets(self) -> list[str]:
        """What no trace may show: keys of the model and the sandbox service; passwords of the store."""
        kept = (self.api_key, self.sandbox_token, self.approver_key, self.approval_secret)
        found = [secret for each in kept if each is not None and (secret := each.get_secret_value())]
        if self.store is None:
            return found
        from atc._host.database_address import secrets_of

        return found + secrets_of(self.store.get_secret_value())

    @property
    def active_rules(self) -> Rules:
        """The ids of the rules that are on (:mod:`atc._records.rules`)."""
        return parse_rules(self.rules)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TrustedFileSource(settings_cls)

    @classmethod
    def load(cls, **given: Any) -> Settings:
        """Read all sources; ``None`` in ``given`` means not given.

        Raises:
            SettingsError: a value is wrong; the message names the setting and what it takes. Or ``atc.toml`` sets what
                needs trust and is not trusted (:mod:`atc._host.trust`).
        """
        try:
            return cls(**{name: value for name, value in given.items() if value is not None})
        except SettingsError:
            raise
        except ValidationError as error:
            told = (e for e in error.errors(include_input=False) if e["type"] != "default_factory_not_called")
            lines = [f"{'.'.join(map(str, e['loc'])) or 'settings'}: {e['msg']}" for e in told]
            hint = "arguments, ATC_* variables and atc.toml are read; `atc doctor --settings` lists them all"
            raise SettingsError("; ".join(lines) + f" ({hint})") from None
        except (OSError, ValueError) as error:
            raise SettingsError(f"atc.toml or the ATC_* variables cannot be read: {error}") from None
