// tessera-describe-host: writes a description of this machine to standard output, as a serialized v1::Target. On
// failure, writes a serialized v1::Failure and exits with 1. For clients in other languages than C++.

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
