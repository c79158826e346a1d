// Holds the precompiled header; see proto/service_pch.h.
