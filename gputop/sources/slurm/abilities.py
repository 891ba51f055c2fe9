"""What this account may do, from Slurm's configuration and accounting; pure."""

import re

from gputop.model.calls import Abilities, Ability

_SLURM_USER = re.compile(r"^SlurmUser\s*=\s*([^(\s]+)\((\d+)\)", re.MULTILINE)
_ACCOUNTING = re.compile(r"^AccountingStorageType\s*=\s*(\S+)", re.MULTILINE)


def judge(account: str, config: str, admin_level: str | None, sudo: bool | None) -> Abilities:
    """account is the one Slurm sees; admin_level is sacctmgr's word, None when it could not be asked.

    sudo: whether the configured prefix is sudo and allows scontrol, None when there is none or nobody can tell.
    """
    found = _SLURM_USER.search(config)
    slurm_user = found.group(1) if found else ""
    if sudo is True:
        return _all(account, Ability.YES, "sudo allows scontrol")
    if sudo is False:
        return _all(account, Ability.NO, "sudo does not allow scontrol without a password; ask for a sudoers rule")
    if account == "root" or (slurm_user and account == slurm_user):
        return _all(account, Ability.YES, f"{account} is root or SlurmUser")
    level = (admin_level or "").strip().lower()
    if level.startswith("admin"):
        return _all(account, Ability.YES, "AdminLevel=Administrator")
    if level.startswith("oper"):
        return Abilities(
            account=account,
            nodes=Ability.NO,
            jobs=Ability.YES,
            marks=Ability.NO,
            detail="AdminLevel=Operator may act on jobs; nodes need Administrator or a slurm_prefix such as sudo",
        )
    accounting = _ACCOUNTING.search(config)
    if level == "none" or (accounting and "none" in accounting.group(1)):
        return _all(
            account,
            Ability.NO,
            f"only root and SlurmUser={slurm_user or 'unknown'} may; an account's own jobs excepted; "
            "set slurm_prefix or ask for AdminLevel=Administrator",
        )
    return _all(account, Ability.UNKNOWN, "AdminLevel could not be read")


def _all(account: str, ability: Ability, detail: str) -> Abilities:
    return Abilities(account=account, nodes=ability, jobs=ability, marks=ability, detail=detail)
