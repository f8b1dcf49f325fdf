// Package allowed argues.
package allowed

import (
	"time"

	"github.com/pawlrun/pawl"
)

func orchestrate(ctx *pawl.Context, n int) (int, error) {
	_ = time.Now() //pawl:allow time: it is only looked at by the one who wrote it

	//pawl:allow time: above the line does as well
	_ = time.Now()

	// What it is for is told first.
	//pawl:allow time: and then argued
	_ = time.Now()

	//pawl:allow time: there are two findings on the line,
	_ = time.Now().Sub(time.Now()) //pawl:allow time: and an argument for each

	_ = time.Now().Sub(time.Now()) /* want `time\.Now ` */ //pawl:allow time: one argument, two findings

	//pawl:allow time: too far above // want `^//pawl:allow time suppresses nothing; remove it \[allow\]$`

	_ = time.Now() // want `time\.Now `

	//pawl:allow random: the wrong kind // want `//pawl:allow random suppresses nothing`
	_ = time.Now() // want `time\.Now `

	_ = time.Now() //pawl:allow time // want `time\.Now ` `^//pawl:allow time has no reason and is ignored; state after a colon why replay does not differ here \[allow\]$`
	_ = time.Now() //pawl:allow time:   // want `time\.Now ` `has no reason`
	_ = time.Now() //pawl:allow: because // want `time\.Now ` `has an unknown category \(""\)`
	_ = time.Now() //pawl:allow tiem: because // want `time\.Now ` `has an unknown category \("tiem"\); write //pawl:allow <category>: <reason>, with one of \[time random map `
	_ = time.Now() //pawl:allow allow: because // want `time\.Now ` `has an unknown category`

	called() //pawl:allow time: at the call, for this caller alone
	called() // want `allowed\.called reaches time\.Now`
	argued() // argued at the source, for everybody
	through()
	return n, nil
}

func called() time.Time { return time.Now() } // want called:`reaches time\.Now`

//pawl:allow time: nobody looks at the minutes
func argued() time.Time { return time.Now() }

func through() time.Time {
	return called() //pawl:allow time: half-way there
}

func unused() {} //pawl:allow go: nothing is started // want `suppresses nothing`
