package pawltest

import "github.com/pawlrun/pawl/internal/limit"

func (e *world) policies() *limit.Overrides { return &limit.Overrides{} }
