package main

type benchCmd struct{}

func (c *benchCmd) Run() error { return nil }
