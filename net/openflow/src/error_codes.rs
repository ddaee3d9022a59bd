//! Numbers of errors (OpenFlow 1.3.5, 7.4.4) in every version.

use crate::version::Version;

/// Vendor of Nicira's extensions.
pub(crate) const NICIRA: u32 = 0x2320;
/// Vendor of the extensions of the ONF.
pub(crate) const ONF: u32 = 0x4f4e_4600;

/// How an error is numbered in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// Type and code of the specification.
    Standard(u16, u16),
    /// Code of an experimenter, after OpenFlow 1.1.
    Experimenter(u32, u16),
    /// Type and code of a vendor in Nicira's form, in OpenFlow 1.0.
    Vendor(u32, u16, u16),
}

/// A number in one version, short for the table.
enum Number {
    S(u16, u16),
    O(u16),
    N(u16),
    V(u16, u16),
    X,
}

impl Number {
    const fn wire(self) -> Option<WireError> {
        match self {
            Self::S(kind, code) => Some(WireError::Standard(kind, code)),
            Self::O(code) => Some(WireError::Experimenter(ONF, code)),
            Self::N(code) => Some(WireError::Experimenter(NICIRA, code)),
            Self::V(kind, code) => Some(WireError::Vendor(NICIRA, kind, code)),
            Self::X => None,
        }
    }
}

macro_rules! errors {
    ($($variant:ident, $name:literal, $v10:expr, $v13:expr, $v14:expr;)*) => {
        /// Reason of an error message.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $(#[doc = concat!("`", $name, "`.")] $variant,)*
        }

        impl ErrorCode {
            /// All reasons.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Name in the specification.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            const fn numbers(self) -> [Option<WireError>; 3] {
                use Number::{N, O, S, V, X};
                match self { $(Self::$variant => [$v10.wire(), $v13.wire(), $v14.wire()],)* }
            }
        }
    };
}

// S: standard, O: experimenter code of the ONF, N: experimenter code of Nicira, V: Nicira's form in 1.0, X: none.
errors! {
    // In OpenFlow 1.0, 1.3, and 1.4 and later.
    HelloIncompatible, "OFPHFC_INCOMPATIBLE", S(0, 0), S(0, 0), S(0, 0);
    HelloPermissions, "OFPHFC_EPERM", S(0, 1), S(0, 1), S(0, 1);
    RequestBadVersion, "OFPBRC_BAD_VERSION", S(1, 0), S(1, 0), S(1, 0);
    RequestBadType, "OFPBRC_BAD_TYPE", S(1, 1), S(1, 1), S(1, 1);
    RequestBadMultipart, "OFPBRC_BAD_MULTIPART", S(1, 2), S(1, 2), S(1, 2);
    RequestBadExperimenter, "OFPBRC_BAD_EXPERIMENTER", S(1, 3), S(1, 3), S(1, 3);
    RequestBadExperimenterType, "OFPBRC_BAD_EXP_TYPE", S(1, 4), S(1, 4), S(1, 4);
    RequestPermissions, "OFPBRC_EPERM", S(1, 5), S(1, 5), S(1, 5);
    RequestBadLen, "OFPBRC_BAD_LEN", S(1, 6), S(1, 6), S(1, 6);
    RequestBufferEmpty, "OFPBRC_BUFFER_EMPTY", S(1, 7), S(1, 7), S(1, 7);
    RequestBufferUnknown, "OFPBRC_BUFFER_UNKNOWN", S(1, 8), S(1, 8), S(1, 8);
    RequestBadTableId, "OFPBRC_BAD_TABLE_ID", V(1, 512), S(1, 9), S(1, 9);
    RequestIsSecondary, "OFPBRC_IS_SECONDARY", S(1, 5), S(1, 10), S(1, 10);
    RequestBadPort, "OFPBRC_BAD_PORT", V(1, 514), S(1, 11), S(1, 11);
    RequestBadPacket, "OFPBRC_BAD_PACKET", X, S(1, 12), S(1, 12);
    RequestMultipartBufferOverflow, "OFPBRC_MULTIPART_BUFFER_OVERFLOW", X, S(1, 13), S(1, 13);
    RequestMultipartRequestTimeout, "OFPBRC_MULTIPART_REQUEST_TIMEOUT", X, O(2640), S(1, 14);
    RequestMultipartReplyTimeout, "OFPBRC_MULTIPART_REPLY_TIMEOUT", X, O(2641), S(1, 15);
    RequestMultipartBadSched, "OFPBRC_MULTIPART_BAD_SCHED", X, X, S(1, 16);
    RequestPipelineFieldsOnly, "OFPBRC_PIPELINE_FIELDS_ONLY", X, X, S(1, 17);
    RequestUnknown, "OFPBRC_UNKNOWN", X, X, S(1, 18);
    NxRequestMustBeZero, "NXBRC_MUST_BE_ZERO", V(1, 515), N(4), N(4);
    NxRequestUnencodableError, "NXBRC_UNENCODABLE_ERROR", V(1, 521), N(10), N(10);
    ActionBadType, "OFPBAC_BAD_TYPE", S(2, 0), S(2, 0), S(2, 0);
    ActionBadLen, "OFPBAC_BAD_LEN", S(2, 1), S(2, 1), S(2, 1);
    ActionBadExperimenter, "OFPBAC_BAD_EXPERIMENTER", S(2, 2), S(2, 2), S(2, 2);
    ActionBadExperimenterType, "OFPBAC_BAD_EXP_TYPE", S(2, 3), S(2, 3), S(2, 3);
    ActionBadOutPort, "OFPBAC_BAD_OUT_PORT", S(2, 4), S(2, 4), S(2, 4);
    ActionBadArgument, "OFPBAC_BAD_ARGUMENT", S(2, 5), S(2, 5), S(2, 5);
    ActionPermissions, "OFPBAC_EPERM", S(2, 6), S(2, 6), S(2, 6);
    ActionTooMany, "OFPBAC_TOO_MANY", S(2, 7), S(2, 7), S(2, 7);
    ActionBadQueue, "OFPBAC_BAD_QUEUE", S(2, 8), S(2, 8), S(2, 8);
    ActionBadOutGroup, "OFPBAC_BAD_OUT_GROUP", V(2, 9), S(2, 9), S(2, 9);
    ActionMatchInconsistent, "OFPBAC_MATCH_INCONSISTENT", V(1, 522), S(2, 10), S(2, 10);
    ActionUnsupportedOrder, "OFPBAC_UNSUPPORTED_ORDER", X, S(2, 11), S(2, 11);
    ActionBadTag, "OFPBAC_BAD_TAG", X, S(2, 12), S(2, 12);
    ActionBadSetType, "OFPBAC_BAD_SET_TYPE", V(1, 523), S(2, 13), S(2, 13);
    ActionBadSetLen, "OFPBAC_BAD_SET_LEN", V(1, 524), S(2, 14), S(2, 14);
    ActionBadSetArgument, "OFPBAC_BAD_SET_ARGUMENT", V(1, 525), S(2, 15), S(2, 15);
    ActionBadSetMask, "OFPBAC_BAD_SET_MASK", X, O(4250), O(4250);
    ActionBadMeter, "OFPBAC_BAD_METER", X, X, S(2, 17);
    NxActionMustBeZero, "NXBAC_MUST_BE_ZERO", V(2, 256), N(11), N(11);
    NxActionBadConjunction, "NXBAC_BAD_CONJUNCTION", V(2, 526), N(15), N(15);
    InstructionUnknown, "OFPBIC_UNKNOWN_INST", X, S(3, 0), S(3, 0);
    InstructionUnsupported, "OFPBIC_UNSUP_INST", V(2, 257), S(3, 1), S(3, 1);
    InstructionBadTableId, "OFPBIC_BAD_TABLE_ID", X, S(3, 2), S(3, 2);
    InstructionUnsupportedMetadata, "OFPBIC_UNSUP_METADATA", X, S(3, 3), S(3, 3);
    InstructionUnsupportedMetadataMask, "OFPBIC_UNSUP_METADATA_MASK", X, S(3, 4), S(3, 4);
    InstructionBadExperimenter, "OFPBIC_BAD_EXPERIMENTER", X, S(3, 5), S(3, 5);
    InstructionBadExperimenterType, "OFPBIC_BAD_EXP_TYPE", X, S(3, 6), S(3, 6);
    InstructionBadLen, "OFPBIC_BAD_LEN", X, S(3, 7), S(3, 7);
    InstructionPermissions, "OFPBIC_EPERM", X, S(3, 8), S(3, 8);
    InstructionDuplicate, "OFPBIC_DUP_INST", X, O(2600), S(3, 9);
    MatchBadType, "OFPBMC_BAD_TYPE", X, S(4, 0), S(4, 0);
    MatchBadLen, "OFPBMC_BAD_LEN", X, S(4, 1), S(4, 1);
    MatchBadTag, "OFPBMC_BAD_TAG", X, S(4, 2), S(4, 2);
    MatchBadEthernetMask, "OFPBMC_BAD_DL_ADDR_MASK", X, S(4, 3), S(4, 3);
    MatchBadNetworkMask, "OFPBMC_BAD_NW_ADDR_MASK", X, S(4, 4), S(4, 4);
    MatchBadWildcards, "OFPBMC_BAD_WILDCARDS", V(1, 262), S(4, 5), S(4, 5);
    MatchBadField, "OFPBMC_BAD_FIELD", V(0, 263), S(4, 6), S(4, 6);
    MatchBadValue, "OFPBMC_BAD_VALUE", V(1, 258), S(4, 7), S(4, 7);
    MatchBadMask, "OFPBMC_BAD_MASK", V(1, 259), S(4, 8), S(4, 8);
    MatchBadPrereq, "OFPBMC_BAD_PREREQ", V(1, 260), S(4, 9), S(4, 9);
    MatchDuplicate, "OFPBMC_DUP_FIELD", V(1, 261), S(4, 10), S(4, 10);
    MatchPermissions, "OFPBMC_EPERM", X, S(4, 11), S(4, 11);
    FlowModUnknown, "OFPFMFC_UNKNOWN", X, S(5, 0), S(5, 0);
    FlowModTableFull, "OFPFMFC_TABLE_FULL", S(3, 0), S(5, 1), S(5, 1);
    FlowModBadTableId, "OFPFMFC_BAD_TABLE_ID", X, S(5, 2), S(5, 2);
    FlowModOverlap, "OFPFMFC_OVERLAP", S(3, 1), S(5, 3), S(5, 3);
    FlowModPermissions, "OFPFMFC_EPERM", S(3, 2), S(5, 4), S(5, 4);
    FlowModBadTimeout, "OFPFMFC_BAD_TIMEOUT", X, S(5, 5), S(5, 5);
    FlowModBadEmergTimeout, "OFPFMFC_BAD_EMERG_TIMEOUT", S(3, 3), X, X;
    FlowModBadCommand, "OFPFMFC_BAD_COMMAND", S(3, 4), S(5, 6), S(5, 6);
    FlowModBadFlags, "OFPFMFC_BAD_FLAGS", V(3, 258), S(5, 7), S(5, 7);
    FlowModCantSync, "OFPFMFC_CANT_SYNC", X, X, S(5, 8);
    FlowModBadPriority, "OFPFMFC_BAD_PRIORITY", X, O(2360), S(5, 9);
    FlowModIsSync, "OFPFMFC_IS_SYNC", X, X, S(5, 10);
    FlowModUnsupported, "OFPFMFC_UNSUPPORTED", S(3, 5), X, X;
    GroupModExists, "OFPGMFC_GROUP_EXISTS", V(6, 0), S(6, 0), S(6, 0);
    GroupModInvalid, "OFPGMFC_INVALID_GROUP", V(6, 1), S(6, 1), S(6, 1);
    GroupModWeightUnsupported, "OFPGMFC_WEIGHT_UNSUPPORTED", V(6, 2), S(6, 2), S(6, 2);
    GroupModOutOfGroups, "OFPGMFC_OUT_OF_GROUPS", V(6, 3), S(6, 3), S(6, 3);
    GroupModOutOfBuckets, "OFPGMFC_OUT_OF_BUCKETS", V(6, 4), S(6, 4), S(6, 4);
    GroupModChainingUnsupported, "OFPGMFC_CHAINING_UNSUPPORTED", V(6, 5), S(6, 5), S(6, 5);
    GroupModWatchUnsupported, "OFPGMFC_WATCH_UNSUPPORTED", V(6, 6), S(6, 6), S(6, 6);
    GroupModLoop, "OFPGMFC_LOOP", V(6, 7), S(6, 7), S(6, 7);
    GroupModUnknownId, "OFPGMFC_UNKNOWN_GROUP", V(6, 8), S(6, 8), S(6, 8);
    GroupModChainedGroup, "OFPGMFC_CHAINED_GROUP", V(6, 9), S(6, 9), S(6, 9);
    GroupModBadType, "OFPGMFC_BAD_TYPE", V(6, 10), S(6, 10), S(6, 10);
    GroupModBadCommand, "OFPGMFC_BAD_COMMAND", V(6, 11), S(6, 11), S(6, 11);
    GroupModBadBucket, "OFPGMFC_BAD_BUCKET", V(6, 12), S(6, 12), S(6, 12);
    GroupModBadWatch, "OFPGMFC_BAD_WATCH", V(6, 13), S(6, 13), S(6, 13);
    GroupModPermissions, "OFPGMFC_EPERM", V(6, 14), S(6, 14), S(6, 14);
    GroupModUnknownBucket, "OFPGMFC_UNKNOWN_BUCKET", V(6, 15), X, S(6, 15);
    GroupModBucketExists, "OFPGMFC_BUCKET_EXISTS", V(6, 16), X, S(6, 16);
    PortModBadPort, "OFPPMFC_BAD_PORT", S(4, 0), S(7, 0), S(7, 0);
    PortModBadHwAddr, "OFPPMFC_BAD_HW_ADDR", S(4, 1), S(7, 1), S(7, 1);
    PortModBadConfig, "OFPPMFC_BAD_CONFIG", X, S(7, 2), S(7, 2);
    PortModBadAdvertise, "OFPPMFC_BAD_ADVERTISE", X, S(7, 3), S(7, 3);
    PortModPermissions, "OFPPMFC_EPERM", X, S(7, 4), S(7, 4);
    TableModBadTable, "OFPTMFC_BAD_TABLE", X, S(8, 0), S(8, 0);
    TableModBadConfig, "OFPTMFC_BAD_CONFIG", X, S(8, 1), S(8, 1);
    TableModPermissions, "OFPTMFC_EPERM", X, S(8, 2), S(8, 2);
    QueueBadPort, "OFPQOFC_BAD_PORT", S(5, 0), S(9, 0), S(9, 0);
    QueueBadQueue, "OFPQOFC_BAD_QUEUE", S(5, 1), S(9, 1), S(9, 1);
    QueuePermissions, "OFPQOFC_EPERM", S(5, 2), S(9, 2), S(9, 2);
    ConfigBadFlags, "OFPSCFC_BAD_FLAGS", X, S(10, 0), S(10, 0);
    ConfigBadLen, "OFPSCFC_BAD_LEN", X, S(10, 1), S(10, 1);
    ConfigPermissions, "OFPSCFC_EPERM", X, S(10, 2), S(10, 2);
    RoleStale, "OFPRRFC_STALE", X, S(11, 0), S(11, 0);
    RoleUnsupported, "OFPRRFC_UNSUP", X, S(11, 1), S(11, 1);
    RoleBadRole, "OFPRRFC_BAD_ROLE", V(1, 513), S(11, 2), S(11, 2);
    RoleIdUnsupported, "OFPRRFC_ID_UNSUP", X, X, S(11, 3);
    RoleIdInUse, "OFPRRFC_ID_IN_USE", X, X, S(11, 4);
    MeterUnknown, "OFPMMFC_UNKNOWN", X, S(12, 0), S(12, 0);
    MeterExists, "OFPMMFC_METER_EXISTS", X, S(12, 1), S(12, 1);
    MeterInvalid, "OFPMMFC_INVALID_METER", X, S(12, 2), S(12, 2);
    MeterUnknownId, "OFPMMFC_UNKNOWN_METER", X, S(12, 3), S(12, 3);
    MeterBadCommand, "OFPMMFC_BAD_COMMAND", X, S(12, 4), S(12, 4);
    MeterBadFlags, "OFPMMFC_BAD_FLAGS", X, S(12, 5), S(12, 5);
    MeterBadRate, "OFPMMFC_BAD_RATE", X, S(12, 6), S(12, 6);
    MeterBadBurst, "OFPMMFC_BAD_BURST", X, S(12, 7), S(12, 7);
    MeterBadBand, "OFPMMFC_BAD_BAND", X, S(12, 8), S(12, 8);
    MeterBadBandValue, "OFPMMFC_BAD_BAND_VALUE", X, S(12, 9), S(12, 9);
    MeterOutOfMeters, "OFPMMFC_OUT_OF_METERS", X, S(12, 10), S(12, 10);
    MeterOutOfBands, "OFPMMFC_OUT_OF_BANDS", X, S(12, 11), S(12, 11);
    TableFeaturesBadTable, "OFPTFFC_BAD_TABLE", X, S(13, 0), S(13, 0);
    TableFeaturesBadMetadata, "OFPTFFC_BAD_METADATA", X, S(13, 1), S(13, 1);
    TableFeaturesPermissions, "OFPTFFC_EPERM", X, S(13, 5), S(13, 5);
    TableFeaturesBadCapabilities, "OFPTFFC_BAD_CAPA", X, X, S(13, 6);
    TableFeaturesBadMaxEntries, "OFPTFFC_BAD_MAX_ENT", X, X, S(13, 7);
    TableFeaturesBadFeatures, "OFPTFFC_BAD_FEATURES", X, X, S(13, 8);
    TableFeaturesBadCommand, "OFPTFFC_BAD_COMMAND", X, X, S(13, 9);
    TableFeaturesTooMany, "OFPTFFC_TOO_MANY", X, X, S(13, 10);
    PropertyBadType, "OFPBPC_BAD_TYPE", V(13, 2), S(13, 2), S(14, 0);
    PropertyBadLen, "OFPBPC_BAD_LEN", V(13, 3), S(13, 3), S(14, 1);
    PropertyBadValue, "OFPBPC_BAD_VALUE", V(13, 4), S(13, 4), S(14, 2);
    PropertyTooMany, "OFPBPC_TOO_MANY", V(14, 3), O(4443), S(14, 3);
    PropertyDuplicateType, "OFPBPC_DUP_TYPE", V(14, 4), O(4444), S(14, 4);
    PropertyBadExperimenter, "OFPBPC_BAD_EXPERIMENTER", V(14, 5), O(4445), S(14, 5);
    PropertyBadExperimenterType, "OFPBPC_BAD_EXP_TYPE", V(14, 6), O(4446), S(14, 6);
    PropertyBadExperimenterValue, "OFPBPC_BAD_EXP_VALUE", V(14, 7), O(4447), S(14, 7);
    PropertyPermissions, "OFPBPC_EPERM", V(14, 8), O(4448), S(14, 8);
    AsyncInvalid, "OFPACFC_INVALID", X, O(2370), S(15, 0);
    AsyncUnsupported, "OFPACFC_UNSUPPORTED", X, O(2371), S(15, 1);
    AsyncPermissions, "OFPACFC_EPERM", X, O(2372), S(15, 2);
    BundleUnknown, "OFPBFC_UNKNOWN", X, O(2300), S(17, 0);
    BundlePermissions, "OFPBFC_EPERM", X, O(2301), S(17, 1);
    BundleBadId, "OFPBFC_BAD_ID", X, O(2302), S(17, 2);
    BundleExists, "OFPBFC_BUNDLE_EXIST", X, O(2303), S(17, 3);
    BundleClosed, "OFPBFC_BUNDLE_CLOSED", X, O(2304), S(17, 4);
    BundleOutOfBundles, "OFPBFC_OUT_OF_BUNDLES", X, O(2305), S(17, 5);
    BundleBadType, "OFPBFC_BAD_TYPE", X, O(2306), S(17, 6);
    BundleBadFlags, "OFPBFC_BAD_FLAGS", X, O(2307), S(17, 7);
    BundleMessageBadLen, "OFPBFC_MSG_BAD_LEN", X, O(2308), S(17, 8);
    BundleMessageBadXid, "OFPBFC_MSG_BAD_XID", X, O(2309), S(17, 9);
    BundleMessageUnsupported, "OFPBFC_MSG_UNSUP", X, O(2310), S(17, 10);
    BundleMessageConflict, "OFPBFC_MSG_CONFLICT", X, O(2311), S(17, 11);
    BundleMessageTooMany, "OFPBFC_MSG_TOO_MANY", X, O(2312), S(17, 12);
    BundleMessageFailed, "OFPBFC_MSG_FAILED", X, O(2313), S(17, 13);
    BundleTimeout, "OFPBFC_TIMEOUT", X, O(2314), S(17, 14);
    BundleInProgress, "OFPBFC_BUNDLE_IN_PROGRESS", X, O(2315), S(17, 15);
    BundleSchedNotSupported, "OFPBFC_SCHED_NOT_SUPPORTED", X, X, S(17, 16);
    BundleSchedFuture, "OFPBFC_SCHED_FUTURE", X, X, S(17, 17);
    BundleSchedPast, "OFPBFC_SCHED_PAST", X, X, S(17, 18);
    BundleBadVersion, "OFPBFC_BAD_VERSION", X, X, N(22);
    InvalidTlvField, "NXFMFC_INVALID_TLV_FIELD", V(1, 536), N(37), N(37);
    TlvBadCommand, "NXTTMFC_BAD_COMMAND", V(1, 527), N(16), N(16);
    TlvBadLen, "NXTTMFC_BAD_OPT_LEN", V(1, 528), N(17), N(17);
    TlvBadIndex, "NXTTMFC_BAD_FIELD_IDX", V(1, 529), N(18), N(18);
    TlvTableFull, "NXTTMFC_TABLE_FULL", V(1, 530), N(19), N(19);
    TlvAlreadyMapped, "NXTTMFC_ALREADY_MAPPED", V(1, 531), N(20), N(20);
    TlvDuplicate, "NXTTMFC_DUP_ENTRY", V(1, 532), N(21), N(21);
    TlvInvalidDelete, "NXTTMFC_INVALID_TLV_DEL", V(1, 537), N(38), N(38);
    MonitorUnknown, "OFPMOFC_UNKNOWN", X, X, S(16, 0);
    MonitorExists, "OFPMOFC_MONITOR_EXISTS", V(1, 517), N(6), S(16, 1);
    MonitorInvalid, "OFPMOFC_INVALID_MONITOR", X, X, S(16, 2);
    MonitorUnknownId, "OFPMOFC_UNKNOWN_MONITOR", V(1, 519), N(8), S(16, 3);
    MonitorBadCommand, "OFPMOFC_BAD_COMMAND", X, X, S(16, 4);
    MonitorBadFlags, "OFPMOFC_BAD_FLAGS", V(1, 518), N(7), S(16, 5);
    MonitorBadTableId, "OFPMOFC_BAD_TABLE_ID", X, X, S(16, 6);
    MonitorBadOut, "OFPMOFC_BAD_OUT", X, X, S(16, 7);
}

impl ErrorCode {
    /// Numbers in messages of a version. An error that a version does not have becomes one that says so.
    pub fn wire(self, version: Version) -> WireError {
        let column = match version {
            Version::V10 => 0,
            Version::V13 => 1,
            Version::V14 | Version::V15 => 2,
        };
        let unencodable =
            if column == 0 { WireError::Vendor(NICIRA, 1, 521) } else { WireError::Experimenter(NICIRA, 10) };
        self.numbers()[column].unwrap_or(unencodable)
    }

    /// The reason of a number in messages of a version.
    pub fn from_wire(error: WireError, version: Version) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.wire(version) == error)
    }
}
