package store

// CheckEarly is for the tests of the scripts.
var CheckEarly = checkEarly
