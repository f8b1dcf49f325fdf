// Package filter implements the language that selects instances for lists, for streams of changes, and for batches.
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
// All terms must match. If a time is not set, such as the end of a running instance, no comparison with it matches; a text that is not
// set is "". The names of attributes are those that instances have set: see AttributeName, which excludes names that resemble a field.
//
// The package is pure. Parse limits the size of its input, because any client may send a filter. Its errors name the column.
package filter
