//! The messages that the vhost-user specification names ("Front-end message types"), by number.

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal;)*) => {
        /// Which message: everything that a front end may send, whether or not it is served here.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum Code { $($(#[$doc])* $variant = $number,)* }

        impl Code {
            /// Every message, by number.
            pub const ALL: &[Code] = &[$(Code::$variant,)*];

            /// The message with this number.
            pub const fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Code::$variant),)*
                    _ => None,
                }
            }

            /// The name in the specification, without its prefix.
            pub const fn name(self) -> &'static str {
                match self { $(Code::$variant => $name,)* }
            }
        }
    };
}

codes! {
    /// Which features the device offers.
    GetFeatures = 1, "GET_FEATURES";
    /// Which features the driver accepted.
    SetFeatures = 2, "SET_FEATURES";
    /// The session begins.
    SetOwner = 3, "SET_OWNER";
    /// Deprecated: disables all rings.
    ResetOwner = 4, "RESET_OWNER";
    /// All memory regions at once.
    SetMemTable = 5, "SET_MEM_TABLE";
    /// The dirty log's memory.
    SetLogBase = 6, "SET_LOG_BASE";
    /// The dirty log's event descriptor.
    SetLogFd = 7, "SET_LOG_FD";
    /// A ring's size.
    SetVringNum = 8, "SET_VRING_NUM";
    /// A ring's addresses.
    SetVringAddr = 9, "SET_VRING_ADDR";
    /// Where a ring starts.
    SetVringBase = 10, "SET_VRING_BASE";
    /// Stops a ring and asks where.
    GetVringBase = 11, "GET_VRING_BASE";
    /// A ring's kick descriptor.
    SetVringKick = 12, "SET_VRING_KICK";
    /// A ring's call descriptor.
    SetVringCall = 13, "SET_VRING_CALL";
    /// A ring's error descriptor.
    SetVringErr = 14, "SET_VRING_ERR";
    /// Which protocol features the back end offers.
    GetProtocolFeatures = 15, "GET_PROTOCOL_FEATURES";
    /// Which protocol features the front end accepted.
    SetProtocolFeatures = 16, "SET_PROTOCOL_FEATURES";
    /// How many queue pairs the back end has.
    GetQueueNum = 17, "GET_QUEUE_NUM";
    /// Enables or disables a ring.
    SetVringEnable = 18, "SET_VRING_ENABLE";
    /// Announces the guest's address.
    SendRarp = 19, "SEND_RARP";
    /// The largest packet that the guest will be told of.
    NetSetMtu = 20, "NET_SET_MTU";
    /// The channel for requests of the back end.
    SetBackendReqFd = 21, "SET_BACKEND_REQ_FD";
    /// An address translation of an I/O memory management unit.
    IotlbMsg = 22, "IOTLB_MSG";
    /// A ring's byte order, for legacy devices.
    SetVringEndian = 23, "SET_VRING_ENDIAN";
    /// Reads the configuration space.
    GetConfig = 24, "GET_CONFIG";
    /// Writes the configuration space.
    SetConfig = 25, "SET_CONFIG";
    /// For cryptographic devices.
    CreateCryptoSession = 26, "CREATE_CRYPTO_SESSION";
    /// For cryptographic devices.
    CloseCryptoSession = 27, "CLOSE_CRYPTO_SESSION";
    /// Post-copy migration.
    PostcopyAdvise = 28, "POSTCOPY_ADVISE";
    /// Post-copy migration.
    PostcopyListen = 29, "POSTCOPY_LISTEN";
    /// Post-copy migration.
    PostcopyEnd = 30, "POSTCOPY_END";
    /// Asks for memory to track descriptors in flight.
    GetInflightFd = 31, "GET_INFLIGHT_FD";
    /// Hands that memory back.
    SetInflightFd = 32, "SET_INFLIGHT_FD";
    /// For graphics devices.
    GpuSetSocket = 33, "GPU_SET_SOCKET";
    /// Disables all rings and resets the device.
    ResetDevice = 34, "RESET_DEVICE";
    /// A kick as a message.
    VringKick = 35, "VRING_KICK";
    /// How many memory regions the back end takes.
    GetMaxMemSlots = 36, "GET_MAX_MEM_SLOTS";
    /// One memory region more.
    AddMemReg = 37, "ADD_MEM_REG";
    /// One memory region less.
    RemMemReg = 38, "REM_MEM_REG";
    /// The device status of VIRTIO.
    SetStatus = 39, "SET_STATUS";
    /// Asks for the device status of VIRTIO.
    GetStatus = 40, "GET_STATUS";
    /// Shared objects.
    GetSharedObject = 41, "GET_SHARED_OBJECT";
    /// Migration of the device's own state.
    SetDeviceStateFd = 42, "SET_DEVICE_STATE_FD";
    /// Migration of the device's own state.
    CheckDeviceState = 43, "CHECK_DEVICE_STATE";
}
