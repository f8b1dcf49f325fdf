// Package chaos is the fault campaign. Fleets of separate processes work on real servers, while a seeded sequence of faults
// kills, pauses, disconnects, slows and restarts every part, alone and together. Afterwards the verdict compares what the
// clients were promised with what was stored and what was run. See docs/fault-campaign.md.
package chaos
