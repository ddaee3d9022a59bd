//! Message types of the vhost-user specification ("Front-end message types"), by number.

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal;)*) => {
        /// Message type. Includes all messages that a front end may send, supported or not.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum Code { $($(#[$doc])* $variant = $number,)* }

        impl Code {
            /// All message types, by number.
            pub const ALL: &[Code] = &[$(Code::$variant,)*];

            /// The message type with this number. Returns `None` if it does not exist.
            pub const fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Code::$variant),)*
                    _ => None,
                }
            }

            /// Name in the specification, without prefix.
            pub const fn name(self) -> &'static str {
                match self { $(Code::$variant => $name,)* }
            }
        }
    };
}

codes! {
    /// Reads the features offered by the device.
    GetFeatures = 1, "GET_FEATURES";
    /// Sets the features accepted by the driver.
    SetFeatures = 2, "SET_FEATURES";
    /// Starts the session.
    SetOwner = 3, "SET_OWNER";
    /// Deprecated: disables all rings.
    ResetOwner = 4, "RESET_OWNER";
    /// Sets all memory regions at once.
    SetMemTable = 5, "SET_MEM_TABLE";
    /// Sets the dirty log memory.
    SetLogBase = 6, "SET_LOG_BASE";
    /// Sets the dirty log eventfd.
    SetLogFd = 7, "SET_LOG_FD";
    /// Sets the size of a ring.
    SetVringNum = 8, "SET_VRING_NUM";
    /// Sets the addresses of a ring.
    SetVringAddr = 9, "SET_VRING_ADDR";
    /// Sets the start position of a ring.
    SetVringBase = 10, "SET_VRING_BASE";
    /// Stops a ring and reads its position.
    GetVringBase = 11, "GET_VRING_BASE";
    /// Sets the kick eventfd of a ring.
    SetVringKick = 12, "SET_VRING_KICK";
    /// Sets the call eventfd of a ring.
    SetVringCall = 13, "SET_VRING_CALL";
    /// Sets the error eventfd of a ring.
    SetVringErr = 14, "SET_VRING_ERR";
    /// Reads the protocol features offered by the back end.
    GetProtocolFeatures = 15, "GET_PROTOCOL_FEATURES";
    /// Sets the protocol features accepted by the front end.
    SetProtocolFeatures = 16, "SET_PROTOCOL_FEATURES";
    /// Reads the number of queue pairs of the back end.
    GetQueueNum = 17, "GET_QUEUE_NUM";
    /// Enables or disables a ring.
    SetVringEnable = 18, "SET_VRING_ENABLE";
    /// Sends a RARP frame for the guest's MAC address.
    SendRarp = 19, "SEND_RARP";
    /// Sets the MTU reported to the guest.
    NetSetMtu = 20, "NET_SET_MTU";
    /// Sets the channel for back-end requests.
    SetBackendReqFd = 21, "SET_BACKEND_REQ_FD";
    /// IOMMU address translation.
    IotlbMsg = 22, "IOTLB_MSG";
    /// Sets the byte order of a ring, for legacy devices.
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
    /// Reads the shared memory that tracks descriptors in flight.
    GetInflightFd = 31, "GET_INFLIGHT_FD";
    /// Sets the shared memory that tracks descriptors in flight.
    SetInflightFd = 32, "SET_INFLIGHT_FD";
    /// For graphics devices.
    GpuSetSocket = 33, "GPU_SET_SOCKET";
    /// Disables all rings and resets the device.
    ResetDevice = 34, "RESET_DEVICE";
    /// In-band kick.
    VringKick = 35, "VRING_KICK";
    /// Reads the maximum number of memory regions of the back end.
    GetMaxMemSlots = 36, "GET_MAX_MEM_SLOTS";
    /// Adds one memory region.
    AddMemReg = 37, "ADD_MEM_REG";
    /// Removes one memory region.
    RemMemReg = 38, "REM_MEM_REG";
    /// Sets the VIRTIO device status.
    SetStatus = 39, "SET_STATUS";
    /// Reads the VIRTIO device status.
    GetStatus = 40, "GET_STATUS";
    /// Shared objects.
    GetSharedObject = 41, "GET_SHARED_OBJECT";
    /// Device state migration.
    SetDeviceStateFd = 42, "SET_DEVICE_STATE_FD";
    /// Device state migration.
    CheckDeviceState = 43, "CHECK_DEVICE_STATE";
}
