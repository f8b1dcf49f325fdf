// Package audit reads a tree of Go packages and reports what is in it: files,
// lines, exported names, the most complex functions, TODO and FIXME marks. It is
// Pawl's main example, for it is real work, and there is enough of it to kill a
// worker in the middle.
//
// # What is where
//
//	list.go, inspect.go        the work itself; ordinary Go, nothing of Pawl in it
//	gather.go, report.go       adding up, and writing the report in parts
//	contract.go                the names that both fleets share
//	orchestrate.go             the order of things
//	activities.go              what a worker does for each name
//
// # The order of things
//
//	list-packages (page) … list-packages (last page)
//	inspect-package × n, a bounded number at a time, gathered in the order of the list
//	write-part × n/k
//	write-report
//	sweep-parts
//
// A tree may have more packages than one payload can name, and their findings do
// not fit into one either. So the list comes in pages, each of which records where
// the next one begins, and the findings go to disk in parts. Each part is written
// aside and renamed: an activity that runs twice leaves what one run leaves. The
// report is put together from the parts, and only when it stands are they removed,
// by an activity of its own: a crash between any two steps finds all it needs.
//
// # What counts
//
// A package is a directory that holds at least one .go file. As for the go tool,
// directories named testdata or vendor and names that begin with "." or "_" do not
// count, and links to directories are not followed, so there are no loops. What
// cannot be read or parsed is named in the report and does not stop it; of a file
// with syntax errors, the part that the parser understood is counted nevertheless.
package audit
