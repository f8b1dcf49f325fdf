package limit

import (
	"slices"

	"github.com/pawlrun/pawl/pkg/history"
)

// IsCode reports whether code is the code of a failure that a limit causes.
func IsCode(code string) bool {
	return slices.Contains([]string{history.CodeQueueFull, history.CodeQueueTimeout, history.CodeQueueCleared, history.CodeLimited}, code)
}
