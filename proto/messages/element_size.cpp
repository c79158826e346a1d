#include "proto/messages/element_size.h"

namespace tessera {

int64_t elementBytes(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_F64:
    case v1::DATA_TYPE_I64:
    case v1::DATA_TYPE_U64:
      return 8;
    case v1::DATA_TYPE_F32:
    case v1::DATA_TYPE_I32:
    case v1::DATA_TYPE_U32:
      return 4;
    case v1::DATA_TYPE_F16:
    case v1::DATA_TYPE_BF16:
    case v1::DATA_TYPE_I16:
    case v1::DATA_TYPE_U16:
      return 2;
    default:
      return 1;
  }
}

}  // namespace tessera
