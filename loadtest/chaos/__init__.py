"""make chaos: steady orders while things break at random; then the audit says whether an order was lost or doubled.

schedule.py   which fault falls when: a function of the seed
faults.py     the faults, a function per kind; each undoes itself
shops.py      what is put under stress: the shop, or its naive version
load.py       customers who order at a steady rate and note what they were told
campaign.py   load, faults and a look at everything once a second, together until the time is over
live.py       what the terminal shows meanwhile (noise.py keeps the complaints of Kafka's clients out of it)
report.py     the page that stays: faults, rates and what was in flight on one time axis (plot.py), and the verdicts
ci.py         a short run on a stack of its own
"""
