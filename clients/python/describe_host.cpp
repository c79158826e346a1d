// tessera-describe-host: this machine as a serialized v1::Target on standard output; where that cannot be said, a
// serialized v1::Failure and exit code 1. For clients that are not C++.

#include <iostream>

#include "compiler/target/host.h"
#include "proto/messages/failure.h"

int main() {
  const auto target = tessera::compiler::detectHostTarget();
  if (!target.ok()) {
    tessera::failureOf(target.status()).SerializeToOstream(&std::cout);
    return 1;
  }
  return target->SerializeToOstream(&std::cout) ? 0 : 2;
}
