// Package audit reads a tree of Go packages and reports files, lines, exported names, the most complex functions, and TODO and FIXME
// marks. It is Pawl's main example, because it does real work, and enough of it to kill a worker in the middle.
//
// # Files
//
//	list.go, inspect.go        the work itself, in ordinary Go without Pawl
//	gather.go, report.go       aggregates the findings and writes the report in parts
//	contract.go                the handles that both fleets share
//	orchestrate.go             the orchestration
//	activities.go              binds the activities for a worker
//
// # Steps
//
//	list-packages (page) … list-packages (last page)
//	inspect-package × n, a bounded number at a time, gathered in the order of the list
//	write-part × n/k
//	write-report
//	sweep-parts
//
// The list of packages of a tree may exceed one payload, and so may their findings. Therefore the list is read in pages, each of which
// records where the next one begins, and the findings are written to disk in parts. Each part is written to a temporary file and renamed,
// so an activity that runs twice leaves the same files as one that runs once. The report is assembled from the parts, which a separate
// activity removes only after the report is complete. After a crash between any two steps, everything needed to continue is still there.
//
// # What counts
//
// A package is a directory with at least one .go file. As for the go tool, directories named testdata or vendor and names that begin with
// "." or "_" do not count. Links to directories are not followed, so there are no loops. Anything that cannot be read or parsed is named
// in the report and does not stop it. Of a file with syntax errors, the part that the parser understood is counted.
package audit
