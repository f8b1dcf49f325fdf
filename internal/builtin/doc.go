// Package builtin contains the orchestrations that every orchestrator registers.
//
//	pawl.job       runs one activity: client.Run
//	pawl.batch     sends a request to every instance that matches a filter: client.StartBatch
//	pawl.schedule  starts orchestrations and jobs, and sends events, at the times of a schedule: client.CreateSchedule
//
// They are ordinary orchestrations: their decisions follow from their histories, so they need no protocol of their own with the store,
// and their crash points are those of every turn. Names that begin with "pawl." are reserved for them.
package builtin

import "github.com/pawlrun/pawl/internal/author"

// Orchestrations returns the bindings of the built-in orchestrations.
func Orchestrations(instances Instances) []author.Binding {
	return []author.Binding{
		author.BindOrchestration(author.Orchestration{Name: JobName, Program: job}),
		author.BindOrchestration(author.Orchestration{Name: Schedules.Name(), Program: scheduleProgram}),
		author.BindOrchestration(author.Orchestration{Name: Batches.Name(), Program: instances.batch}),
	}
}
