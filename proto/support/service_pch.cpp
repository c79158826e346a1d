// Holds the precompiled header; see proto/support/service_pch.h.
