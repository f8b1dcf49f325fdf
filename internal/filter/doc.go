// Package filter is the language that selects instances: of lists, of streams of changes, and of changes of many at once.
//
//	orchestration = "fulfil" and status in (failed, cancelled) and started > -24h and id starts "order-"
//
//	where  = [ term { "and" term } ]
//	term   = field ( "=" | "!=" | "starts" ) value
//	       | field "in" "(" value { "," value } ")"
//	       | time ( "<" | "<=" | ">" | ">=" ) moment
//	       | ( "unanswered" | "stalled" ) "=" "true"
//	       | attribute ( "<" | "<=" | ">" | ">=" ) ( whole number | moment )
//	field  = "id" | "status" | "orchestration" | "version" | "parent" | "code" | attribute
//	time   = "started" | "updated" | "ended"
//	value  = word | text in single or double quotes, in which a backslash takes the next character as it is
//	moment = RFC 3339 time | date | duration from now, such as -24h, -7d or +2h
//
// All terms must match. Where nothing is set, as the end of a running instance, no comparison matches, and a value is "". An attribute
// has the name that instances have given it: see AttributeName, which leaves out what is like a field.
//
// The package is pure. Parse bounds what it accepts, because any client may send a text; its errors name the column.
package filter
