package model

import "github.com/pawlrun/pawl/tests/model/explore"

// Found is what a search has found.
type Found = explore.Found

// Search visits the worlds of the setup breadth first, at most so many, and
// stops at the first that breaks a promise.
func Search(setup *Setup, most int) Found { return explore.Search(NewWorld(setup), most) }
