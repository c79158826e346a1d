// Holds the precompiled header; see proto/common_pch.h.
