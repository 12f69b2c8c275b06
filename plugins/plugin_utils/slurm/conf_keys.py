"""Keys of slurm.conf in all releases from 21.08 to 26.05."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Keys of all releases; the installed release rejects those that it does not support.
_NAMES = """
    AccountingStorageBackupHost AccountingStorageEnforce AccountingStorageExternalHost AccountingStorageHost
    AccountingStorageLoc AccountingStorageParameters AccountingStoragePass AccountingStoragePort
    AccountingStorageTRES AccountingStorageType AccountingStorageUser AccountingStoreFlags AccountingStoreJobComment
    AcctGatherEnergyType AcctGatherFilesystemType AcctGatherInfinibandType AcctGatherInterconnectType
    AcctGatherNodeFreq AcctGatherProfileType AllowSpecResourcesUsage AuthAltParameters AuthAltTypes AuthInfo
    AuthType BackupAddr BackupController BatchStartTimeout BcastExclude BcastParameters BurstBufferParameters
    BurstBufferType CertgenParameters CertgenType CertmgrParameters CertmgrType CliFilterParameters CliFilterPlugins
    ClusterName CommunicationParameters CompleteWait ControlAddr ControlMachine CoreSpecPlugin CpuFreqDef
    CpuFreqGovernors CredType CryptoType DataParserParameters DebugFlags DefCPUPerGPU DefMemPerCPU DefMemPerGPU
    DefMemPerNode DependencyParameters DisableRootJobs DownNodes EioTimeout EnforcePartLimits Epilog EpilogMsgTime
    EpilogSlurmctld EpilogTimeout ExtSensorsFreq ExtSensorsType FairShareDampeningFactor FastSchedule
    FederationParameters FirstJobId FrontendName GetEnvTimeout GpuFreqDef GresTypes GroupUpdateForce GroupUpdateTime
    HashPlugin HealthCheckInterval HealthCheckNodeState HealthCheckProgram HealthCheckTimeout HttpParserType
    InactiveLimit InteractiveStepOptions JobAcctGatherFrequency JobAcctGatherParams JobAcctGatherType JobCompHost
    JobCompLoc JobCompParams JobCompPass JobCompPassScript JobCompPort JobCompType JobCompUser JobContainerType
    JobCredentialPrivateKey JobCredentialPublicCertificate JobFileAppend JobRequeue JobSubmitPlugins KeepAliveTime
    KillOnBadExit KillWait LaunchParameters LaunchType LicenseParameters Licenses LogTimeFormat MailDomain MailProg
    MaxArraySize MaxBatchRequeue MaxDBDMsgs MaxJobCount MaxJobId MaxMemPerCPU MaxMemPerNode MaxNodeCount
    MaxStepCount MaxTasksPerNode MCSParameters MCSPlugin MessageTimeout MetricsAuthUsers MetricsParameters
    MetricsType MinJobAge MpiDefault MpiParams NamespaceType NodeFeaturesPlugins NodeName NodeSet OverTimeLimit
    PartitionName PluginDir PlugStackConfig PowerAction PowerParameters PowerPlugin PreemptExemptTime PreemptMode
    PreemptParameters PreemptType PrEpParameters PrEpPlugins PriorityCalcPeriod PriorityDecayHalfLife
    PriorityFavorSmall PriorityFlags PriorityMaxAge PriorityParameters PrioritySiteFactorParameters
    PrioritySiteFactorPlugin PriorityType PriorityUsageResetPeriod PriorityWeightAge PriorityWeightAssoc
    PriorityWeightFairshare PriorityWeightJobSize PriorityWeightPartition PriorityWeightQOS PriorityWeightTRES
    PrivateData ProctrackType Prolog PrologEpilogTimeout PrologFlags PrologSlurmctld PrologTimeout
    PropagatePrioProcess PropagateResourceLimits PropagateResourceLimitsExcept RebootProgram ReconfigFlags
    RequeueExit RequeueExitHold ResumeFailProgram ResumeProgram ResumeRate ResumeTimeout ResvEpilog ResvOverRun
    ResvProlog ReturnToService RoutePlugin SallocDefaultCommand SbcastParameters SchedulerAuth SchedulerParameters
    SchedulerTimeSlice SchedulerType ScronParameters SelectType SelectTypeParameters SlurmctldAddr SlurmctldDebug
    SlurmctldHost SlurmctldHttpAuthParameters SlurmctldLogFile SlurmctldParameters SlurmctldPidFile
    SlurmctldPlugstack SlurmctldPort SlurmctldPrimaryOffProg SlurmctldPrimaryOnProg SlurmctldSyslogDebug
    SlurmctldTimeout SlurmdDebug SlurmdHttpAuthParameters SlurmdLogFile SlurmdParameters SlurmdPidFile SlurmdPort
    SlurmdSpoolDir SlurmdSyslogDebug SlurmdTimeout SlurmdUser SlurmSchedLogFile SlurmSchedLogLevel SlurmUser
    SrunEpilog SrunPortRange SrunProlog StateSaveLocation SuspendExcNodes SuspendExcParts SuspendExcStates
    SuspendProgram SuspendRate SuspendTime SuspendTimeout SwitchParameters SwitchType TaskEpilog TaskPlugin
    TaskPluginParam TaskProlog TCPTimeout TLSParameters TLSType TmpFS TopologyParam TopologyPlugin TrackWCKey
    TreeWidth UnkillableStepProgram UnkillableStepTimeout UrlParserType UsePAM VSizeFactor WaitTime X11Parameters
"""
SLURM_CONF_KEYS = tuple(_NAMES.split())
_BY_LOWER = {key.lower(): key for key in SLURM_CONF_KEYS}


def unknown_keys(keys: Iterable[str]) -> list[str]:
    """Return the keys that no release supports; keys are case-insensitive."""
    return [key for key in keys if key.lower() not in _BY_LOWER]


def nearest_key(key: str) -> str:
    """Return the most similar known key, or ''."""
    found = get_close_matches(key.lower(), _BY_LOWER, n=1, cutoff=0.7)
    return _BY_LOWER[found[0]] if found else ""
