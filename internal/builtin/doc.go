// Package builtin has the orchestrations that every orchestrator registers.
//
//	pawl.job       runs one activity: client.Run
//	pawl.schedule  starts orchestrations and jobs, and sends events, at the times of a schedule: client.CreateSchedule
//
// They are ordinary orchestrations: what they decide follows from their histories, so they need no protocol of their own with the store,
// and their crash points are those of every turn. Names that begin with "pawl." are reserved for them.
package builtin

import "github.com/pawlrun/pawl/internal/author"

// Orchestrations returns the bindings.
func Orchestrations() []author.Binding {
	return []author.Binding{author.BindOrchestration(author.Orchestration{Name: JobName, Program: job}), Schedules.Do(runSchedule)}
}
