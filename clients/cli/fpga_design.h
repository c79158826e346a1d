#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "compiler/loopnest/nest.h"
#include "tessera/v1/target.pb.h"

namespace tessera::client {

/// The design of an operator for an FPGA, written to files.
struct FpgaDesign {
  std::string source;  ///< text of NAME.cpp
  std::string text;    ///< for people: time, shares of the roofs, resources, the tile tree
  std::string json;
};

/// Searches the design and writes NAME.h, NAME.cpp and NAME_test.cpp to `folder`; empty: writes nothing. The nest's
/// element types are set. Errors: UNIMPLEMENTED or FAILED_PRECONDITION naming the operation or the resource; errors of
/// files.
absl::StatusOr<FpgaDesign> designForFpga(const compiler::loopnest::Nest& nest, const v1::Target& target,
                                         const std::string& name, const std::string& folder);

}  // namespace tessera::client
