#pragma once

#include "absl/status/statusor.h"
#include "compiler/loopnest/nest.h"
#include "tessera/v1/analysis.pb.h"
#include "tessera/v1/target.pb.h"

/// Instructions and operators as loop nests of one statement (AMOS; thesis, chapter 5; both are cited in full in
/// clients/docs/design/references.md). accesses[0] is the destination, the others are the sources in their order.
namespace tessera::compiler::intrinsic {

using loopnest::Access;
using loopnest::Loop;
using loopnest::Nest;
using loopnest::saturatedProduct;
using loopnest::Subscript;
using Form = v1::Intrinsic::Arithmetic::Form;

/// The form of a nest's body; FORM_UNSPECIFIED for several statements and for bodies that are no sum of products, sum,
/// or extremum of their inputs. A product that is not summed, and a new sum, are MULTIPLY.
Form formOf(const Nest& nest);

/// A body of that form with `sources` inputs. `reduces`: some loop of the nest does not index the destination.
loopnest::Body bodyOf(Form form, size_t sources, bool reduces);

/// OK, or INVALID_ARGUMENT with the reason if no mapping can exist: a subscript with a quotient or remainder, or a body
/// without form.
absl::Status checkMappable(const Nest& nest);

/// The compute abstraction (definition 3) of an instruction that validateTarget accepts; an instruction without
/// arithmetic (an old description) multiplies and adds.
absl::StatusOr<Nest> nestOf(const v1::Intrinsic& intrinsic);

/// A nest of a model. Fails with FAILED_PRECONDITION if the nest has an obstacle.
absl::StatusOr<Nest> nestOf(const v1::OperatorNest& described);

}  // namespace tessera::compiler::intrinsic
