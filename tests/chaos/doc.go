// Package chaos is the fault campaign: fleets of separate processes, on real servers, work while a seeded sequence of faults
// kills, pauses, cuts, slows and restarts every part, alone and together. Afterwards the verdict compares what clients were
// promised with what was stored and what was run. See docs/fault-campaign.md.
package chaos
