package nodes

var waitFor = Type{
	Name:   "waitFor",
	Schema: "WaitFor",
	About:  "Waits until a condition is true, which it looks at when the lead changes or has an event.",
	Members: []Member{
		{Name: "when", Kind: Condition, Required: true, Draft: "a CEL condition"},
		timeout,
		{Name: "next", Kind: Way, Drawn: Words{"True", "成立"}, Said: Words{"The condition is true", "条件成立"}},
		{
			Name: "onTimeout", Kind: Way, Else: "next", Label: Words{"If it does not become true", "若条件未成立"},
			Drawn: Words{"None within {timeout}", "{timeout}内未发生"}, Said: Words{"Time is over", "超时"},
		},
	},
	Enters:  PhaseAwait,
	Waits:   ForCondition,
	Title:   Words{"Wait for condition", "等待条件"},
	Hint:    Words{"Wait until a condition is true", "等待条件成立"},
	Summary: Words{"Until {when}, up to {timeout}", "等到 {when}，最多 {timeout}"},
	Timeline: map[string]Words{
		"matched":  {"Condition is true", "条件成立"},
		"timedOut": {"Condition not true in time", "超时条件未成立"},
	},
	Results: map[string]Words{
		"matched":  {"The condition is true", "条件成立"},
		"timedOut": {"Time was over", "超时"},
	},
	Icon:   "M3.2 12a8.8 8.8 0 1 0 17.6 0a8.8 8.8 0 1 0-17.6 0M8 12.3l2.8 2.7L16 9.5",
	Colour: Pause,
	Guide: "waits until its `when` is true, then goes to `next`; if it is not when `timeout` is over, to `onTimeout`, or to `next` " +
		"without one: see [below](#waiting-for-a-condition)",
	Rule: "waits until the condition is true. It is looked at when the lead comes, changes or has an event that it may depend on, and when " +
		"the time is over. `onTimeout` is `next` without it",
	Examples: []string{
		`{"when":"lead.gender == 1","timeout":"P7D"}`,
		`{"when":"lead.customFields.score > 4","timeout":"7h"}`,
		`{"when":"lead.customFields.none > 1","timeout":"50h"}`,
	},
	Inserted: `{"timeout":"P7D"}`,
}
