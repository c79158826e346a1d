#pragma once

#include "tessera/v1/artifact.pb.h"
#include "tessera/v1/job.pb.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::client {

/// Returns the request for a compilation by the decisions of an artifact: its name, target, sizes, fixed inputs, states
/// and precision. The files are not set: the model, its external data, and the pins, which are the text of
/// pinsOf(plan). A caller that finds another code in the result has a request whose options the plan does not state.
v1::CompileSpec recordedSpec(const v1::Manifest& manifest, const v1::Plan& plan);

}  // namespace tessera::client
