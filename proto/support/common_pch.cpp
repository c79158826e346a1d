// Holds the precompiled header; see proto/support/common_pch.h.
