#include "workers/rpc.h"

namespace tessera::worker {

absl::StatusOr<std::shared_ptr<grpc::Channel>> openChannel(const std::string& address, const Identity& identity) {
  constexpr int kMaxMessageBytes = 256 << 20;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // How long connecting may take: a busy machine, or TLS over a long way, takes longer than a reconnect is put off.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 10'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // A machine that vanished sends no reset; without pings a long poll would wait for it.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  // Workers of one process (in tests) and of one host must not share a connection's fate.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return tessera::openChannel(address, identity, arguments);
}

}  // namespace tessera::worker
