"""A comparison of the causes that an audit finds with the reasons that the recorded brokers logged."""
