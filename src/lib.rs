//! hwgate
